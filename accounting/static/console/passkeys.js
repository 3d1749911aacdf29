// Says on the page what the browser said of a passkey, in place of an error on its console.
document.addEventListener('allauth.error', (event) => {
  event.preventDefault()
  const place = document.getElementById('passkey-error')
  place.hidden = false
})
