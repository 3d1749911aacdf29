"""Ways of choosing devices that vendors share: small functions over values. Must not know: any one vendor."""
