"""What settings become: strategies, where the driver is, and who moves containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from deviceplugin import configured, refit, runtime
from hami_platform import env


def settings(**environ: str) -> env.Settings:
    return env.load(environ)


def test_hamis_variables_become_the_strategies() -> None:
    found = configured.handing(
        settings(
            DEVICE_LIST_STRATEGY="cdi-annotations,cdi-cri",
            DEVICE_ID_STRATEGY="index",
            PASS_DEVICE_SPECS="true",
            GDS_ENABLED="true",
            MOFED_ENABLED="1",
            IMEX_CHANNEL_IDS="0",
            NVIDIA_DRIVER_ROOT="/run/nvidia/driver",
            CDI_ANNOTATION_PREFIX="example.com/",
        )
    )
    assert found == runtime.Handing(
        strategies=("cdi-annotations", "cdi-cri"),
        by_index=True,
        specs=True,
        dev_root="/run/nvidia/driver",
        cdi_prefix="example.com/",
        extras=("gds", "mofed"),
        imex=("0",),
    )


@pytest.mark.parametrize(
    "environ, message",
    [
        ({"HAMI_DEVICE_LIST_STRATEGY": "envvar,cdi"}, "HAMI_DEVICE_LIST_STRATEGY: 'cdi' is not one of envvar"),
        ({"HAMI_IMEX_CHANNEL_IDS": "3"}, "HAMI_IMEX_CHANNEL_IDS: '3' is not one of 0"),
        ({"HAMI_MIG_STRATEGY": "some"}, "HAMI_MIG_STRATEGY: must be one of none, single, mixed"),
        ({"HAMI_DEVICE_ID_STRATEGY": "name"}, "HAMI_DEVICE_ID_STRATEGY: must be one of uuid, index"),
        ({"HAMI_TEMPERATURE_LIMIT_C": "hot"}, "HAMI_TEMPERATURE_LIMIT_C"),
    ],
)
def test_a_word_that_is_none_is_named(environ: dict[str, str], message: str) -> None:
    with pytest.raises(env.BadSettingsError, match=message):
        settings(**environ)


def test_no_strategy_at_all_is_an_error() -> None:
    with pytest.raises(env.BadSettingsError, match="HAMI_DEVICE_LIST_STRATEGY: name at least one"):
        configured.handing(settings(HAMI_DEVICE_LIST_STRATEGY=","))


def test_cdi_needs_the_drivers_files_and_real_cards(tmp_path: Path) -> None:
    cdi = {"HAMI_DEVICE_LIST_STRATEGY": "cdi-cri"}
    assert configured.cdi_plan(settings(), runtime.Handing()) is None
    for environ, message in (
        ({"HAMI_DRIVER_ROOT_INSIDE": str(tmp_path)}, f"HAMI_DRIVER_ROOT_INSIDE: no libcuda.* below {tmp_path}"),
        ({"HAMI_INVENTORY_FILE": "/x"}, "CDI needs real devices"),
    ):
        given = settings(**cdi, **environ)
        with pytest.raises(env.BadSettingsError, match=message):
            configured.cdi_plan(given, configured.handing(given))


def test_device_nodes_are_looked_for_below_the_drivers_root_where_it_is_seen(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    assert configured.dev_inside(settings(HAMI_DRIVER_ROOT_INSIDE=str(tmp_path))) == tmp_path
    assert configured.dev_inside(settings(HAMI_DRIVER_ROOT_INSIDE=str(tmp_path / "none"))) == Path("/")


def test_who_moves_containers_is_asked_with_the_internal_token_or_the_accounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = {"HAMI_SCHEDULER_ENDPOINT": "https://scheduler", "HAMI_SCHEDULER_TLS_INSECURE": "true"}
    account = tmp_path / "token"
    monkeypatch.setattr(configured, "SERVICE_TOKEN", account)
    own = configured.mover(settings(**where, HAMI_INTERNAL_TOKEN="t0k3n"))
    other = configured.mover(settings(**where))
    assert isinstance(own, refit.Scheduler)
    assert isinstance(other, refit.Scheduler)
    assert (own.token(), other.token(), own.insecure) == ("t0k3n", "", True)
    account.write_text("of the account\n")
    assert other.token() == "of the account"
    assert configured.mover(settings()) is None


def test_where_containers_are_moved_must_be_an_address() -> None:
    with pytest.raises(env.BadSettingsError, match="HAMI_SCHEDULER_ENDPOINT: must begin with http"):
        configured.mover(settings(HAMI_SCHEDULER_ENDPOINT="scheduler:443"))
