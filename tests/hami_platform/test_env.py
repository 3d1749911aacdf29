from __future__ import annotations

import pathlib

import pytest

from hami_platform import env, env_flags, env_values


def problems(environ: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(env.BadSettingsError) as caught:
        env.load(environ)
    return caught.value.problems


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = env.load({})
    assert (settings.role, settings.cluster, settings.scheduler_name) == ("tool", "default", "hami-scheduler")
    assert settings.node_lock_timeout_s == 300


def test_every_default_is_one_that_its_own_reader_accepts() -> None:
    given = {row.variable: row.default for row in env.TABLE}
    assert env.load(given) == env.load({})


def test_variables_and_attributes_are_unique() -> None:
    assert len({row.variable for row in env.TABLE}) == len(env.TABLE)
    flags = [flag for row in env.TABLE for flag in row.flags]
    assert len(set(flags)) == len(flags)
    assert not set(flags) & set(env_flags.ACCEPTED_FLAGS)


def test_every_setting_has_help_and_a_group() -> None:
    assert [row.variable for row in env.TABLE if not row.help.strip() or not row.group] == []


def test_an_unknown_name_stops_the_start_and_the_near_one_is_offered() -> None:
    assert problems({"HAMI_REDIS_ULR": "redis://x"}) == (
        "HAMI_REDIS_ULR: no such setting; did you mean HAMI_REDIS_URL?",
    )


def test_all_mistakes_are_told_at_once() -> None:
    found = problems({"HAMI_DEBUG": "maybe", "HAMI_NODE_LOCK_TIMEOUT": "5 parsecs", "HAMI_NOPE_NOPE": "1"})
    assert [line.partition(":")[0] for line in found] == ["HAMI_NOPE_NOPE", "HAMI_DEBUG", "HAMI_NODE_LOCK_TIMEOUT"]


@pytest.mark.parametrize(
    "name,value",
    [
        ("HAMI_SCHEDULER_SERVICE_HOST", "10.0.0.1"),
        ("HAMI_SCHEDULER_SERVICE_PORT_HTTP", "443"),
        ("HAMI_SCHEDULER_PORT", "tcp://10.0.0.1:443"),
        ("HAMI_SCHEDULER_PORT_443_TCP_ADDR", "10.0.0.1"),
    ],
)
def test_what_kubelet_sets_for_a_service_named_hami_is_no_mistake(name: str, value: str) -> None:
    assert env.load({name: value}) == env.load({})


def test_a_mistyped_port_is_not_taken_for_a_service() -> None:
    assert problems({"HAMI_WEB_PORT": "8000"})[0].startswith("HAMI_WEB_PORT: no such setting")


def test_a_secret_may_come_from_a_file(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "key"
    file.write_text("s3cret\n", encoding="utf-8")
    assert env.load({"HAMI_SECRET_KEY_FILE": str(file)}).secret_key == "s3cret"


def test_a_secret_given_twice_is_refused(tmp_path: pathlib.Path) -> None:
    assert "set one of them" in problems({"HAMI_SECRET_KEY": "a", "HAMI_SECRET_KEY_FILE": str(tmp_path)})[0]


def test_a_missing_secret_file_is_named(tmp_path: pathlib.Path) -> None:
    [problem] = problems({"HAMI_INTERNAL_TOKEN_FILE": str(tmp_path / "gone")})
    assert problem.startswith("HAMI_INTERNAL_TOKEN: cannot read the file that HAMI_INTERNAL_TOKEN_FILE names")


def test_only_secrets_have_files() -> None:
    assert problems({"HAMI_CLUSTER_FILE": "/x"})[0].startswith("HAMI_CLUSTER_FILE: no such setting")


def test_a_bad_database_url_does_not_show_its_password() -> None:
    [problem] = problems({"HAMI_DATABASE_URL": "mysql://me:hunter2@db/x"})
    assert problem.startswith("HAMI_DATABASE_URL: ")
    assert "hunter2" not in problem
    assert "hunter2" not in repr(env_values.database("postgresql://me:hunter2@db/x"))


def test_settings_never_show_their_secrets() -> None:
    secrets = {
        row.variable: "redis://hunter2" for row in env.TABLE if row.secret and row.variable != "HAMI_DATABASE_URL"
    }
    assert "hunter2" not in repr(env.load({**secrets, "HAMI_DATABASE_URL": "postgresql://me:hunter2@db/x"}))


def test_the_plain_name_is_read_and_the_prefixed_one_wins() -> None:
    assert env.load({"KUBECONFIG": "/a"}).kubeconfig == "/a"
    assert env.load({"KUBECONFIG": "/a", "HAMI_KUBECONFIG": "/b"}).kubeconfig == "/b"


def test_an_extender_beyond_loopback_needs_client_certificates() -> None:
    environ = {"HAMI_ROLE": "extender", "HAMI_EXTENDER_BIND": "0.0.0.0:9444"}
    assert problems(environ)[0].startswith("HAMI_EXTENDER_BIND")
    assert env.load({**environ, "HAMI_TLS_CLIENT_CA_FILE": "/ca.pem"}).extender_bind.port == 9444


def test_web_replicas_on_postgres_need_a_common_secret_key() -> None:
    environ = {"HAMI_ROLE": "web", "HAMI_DATABASE_URL": "postgresql://db/x"}
    assert problems(environ)[0].startswith("HAMI_SECRET_KEY")
    assert env.load({**environ, "HAMI_SECRET_KEY": "k"}).role == "web"


def test_a_certificate_without_its_key_is_refused() -> None:
    assert problems({"HAMI_TLS_CERT_FILE": "/c"}) == ("HAMI_TLS_CERT_FILE, HAMI_TLS_KEY_FILE: set both or neither",)


def test_override_lasts_as_long_as_its_block() -> None:
    before = env.current().claim_lease_s
    with env.override(claim_lease_s=before + 1):
        assert env.current().claim_lease_s == before + 1
    assert env.current().claim_lease_s == before
