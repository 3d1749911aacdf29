"""Django's settings, made from the one table in `env`. Business values are not here: code reads them from `env`."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

from csp import constants as csp

from hami_platform import env, env_values, logs, secret_key

BASE_DIR = pathlib.Path(__file__).resolve().parent.parent
ENV = env.current()
STATE_DIR = pathlib.Path(ENV.state_dir)
if not STATE_DIR.is_absolute():
    STATE_DIR = BASE_DIR / STATE_DIR
STATE_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)

DEBUG = ENV.debug
SECRET_KEY = ENV.secret_key or secret_key.kept_in(STATE_DIR)
# The API server and kube-scheduler call listeners by whatever address they were configured with, and these answer
# nothing that depends on the host; people's browsers must name a known one.
ALLOWED_HOSTS = list(ENV.allowed_hosts) if ENV.role in {"web", "tool"} else ["*"]
CSRF_TRUSTED_ORIGINS = list(ENV.csrf_trusted_origins)

INSTALLED_APPS = [
    "accounting",
    "scheduler_ext",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "csp",
    "django_filters",
    "django_htmx",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "drf_standardized_errors",
    "import_export",
    "knox",
    "rest_framework",
    "simple_history",
]

MIDDLEWARE = [  # of the console; wsgi takes it away where machines call
    "django.middleware.security.SecurityMiddleware",
    "hami_platform.request_ids.name_requests",
    "hami_platform.addresses.refuse_nul",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "accounting.refused_changes.keep_refused_changes",
    "allauth.account.middleware.AccountMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "simple_history.middleware.HistoryRequestMiddleware",
]

ROOT_URLCONF = "hami_platform.urls"
WSGI_APPLICATION = "hami_platform.wsgi.application"
APPEND_SLASH = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "hami_platform.signin.passkeys",
            ],
        },
    },
]
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"
INSTALLED_APPS.append("django.forms")  # so that our templates may override the widgets' ones

# -- Database and cache ------------------------------------------------------------------------------------------------

_LONG_STATEMENTS = {"migrate", "createcachetable", "flush", "loaddata", "dumpdata", "dbshell", "sqlmigrate", "test"}
_LONG = len(sys.argv) > 1 and sys.argv[1] in _LONG_STATEMENTS


def _sqlite(name: str) -> dict[str, Any]:
    file = pathlib.Path(name)
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": file if file.is_absolute() else BASE_DIR / file,
        "CONN_MAX_AGE": None,  # a thread keeps its connection: opening one costs more than a decision
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=20000;",
        },
        # A file as in production: shared in-memory databases lock tables instead of waiting.
        "TEST": {"NAME": str(STATE_DIR / "test.sqlite3")},
    }


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _postgres(url: env_values.Database) -> dict[str, Any]:
    limits = {
        "lock_timeout": _milliseconds(ENV.lock_timeout_s),
        "statement_timeout": 0 if _LONG else _milliseconds(ENV.statement_timeout_s),
        "idle_in_transaction_session_timeout": 0 if _LONG else _milliseconds(ENV.idle_transaction_timeout_s),
    }
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": url.name,
        "USER": url.user,
        "PASSWORD": url.password,
        "HOST": url.host,
        "PORT": url.port or "",
        "CONN_MAX_AGE": 0,  # the pool keeps them
        "OPTIONS": {
            **dict(url.options),
            "options": " ".join(f"-c {name}={value}" for name, value in limits.items()),
            "connect_timeout": 3,
            # A peer that vanished without a word is given up within seconds, not the kernel's quarter of an hour.
            "keepalives": 1,
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": 5000,
            "pool": {
                "min_size": ENV.database_pool_min,
                "max_size": ENV.database_pool_max,
                "timeout": 5,
                # By default tries come ever more rarely for five minutes: a server that was away for one was found
                # only a quarter of a minute after its return. Whoever asks next begins anew.
                "reconnect_timeout": 1,
            },
        },
    }


def _database() -> dict[str, Any]:
    url = ENV.database_url
    if url is not None and url.postgres:
        return _postgres(url)
    return _sqlite(url.name if url is not None else str(STATE_DIR / "ledger.sqlite3"))


DATABASES = {"default": {**_database(), "ATOMIC_REQUESTS": False}}

REDIS_CACHE: dict[str, Any] = {
    "BACKEND": "hami_platform.caches.RedisOrMemory",
    "LOCATION": ENV.redis_url,
    "OPTIONS": {"socket_connect_timeout": 1, "socket_timeout": 1},
}
CACHES: dict[str, dict[str, Any]] = {
    "default": REDIS_CACHE
    if ENV.redis_url
    else {"BACKEND": "django.core.cache.backends.db.DatabaseCache", "LOCATION": "cache"}
}

# -- Accounts ----------------------------------------------------------------------------------------------------------

AUTH_USER_MODEL = "accounting.User"
# Knox's migrations would make a table of its own beside ours: unused, and in the way of flushing on PostgreSQL.
MIGRATION_MODULES = {"knox": None}
KNOX_TOKEN_MODEL = "accounting.ApiToken"  # noqa: S105 - a model's name
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
ACCOUNT_ADAPTER = "hami_platform.signin.LocalAccounts"
SOCIALACCOUNT_ADAPTER = "hami_platform.signin.ProviderAccounts"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_SESSION_REMEMBER = False
ACCOUNT_LOGOUT_ON_GET = False
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_ADAPTER = "hami_platform.signin.SecondFactors"
MFA_TOTP_ISSUER = "GPU quota platform"
_OIDC_APP = {
    "provider_id": "oidc",
    "name": ENV.oidc_name,
    "client_id": ENV.oidc_client_id,
    "secret": ENV.oidc_client_secret,
    "settings": {"server_url": ENV.oidc_server_url, "oauth_pkce_enabled": True},
}
SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [_OIDC_APP] if ENV.oidc_server_url else []}}
SOCIALACCOUNT_EMAIL_AUTHENTICATION = False
SOCIALACCOUNT_LOGIN_ON_GET = False
SOCIALACCOUNT_STORE_TOKENS = False

# -- Safety of pages ---------------------------------------------------------------------------------------------------

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [csp.NONE],
        "script-src": [csp.SELF],
        "style-src": [csp.SELF],
        "img-src": [csp.SELF, "data:"],
        "connect-src": [csp.SELF],
        "font-src": [csp.SELF],
        "form-action": [csp.SELF],
        "frame-ancestors": [csp.NONE],
        "base-uri": [csp.NONE],
    }
}
_HTTPS = ENV.behind_tls_proxy or bool(ENV.tls_cert_file)
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if ENV.behind_tls_proxy else None
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _HTTPS
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = 31_536_000 if _HTTPS else 0
X_FRAME_OPTIONS = "DENY"

# -- Static files, languages, time -------------------------------------------------------------------------------------

STATIC_URL = "/static/"
STATIC_ROOT = STATE_DIR / "static"
STATICFILES_DIRS = [folder for folder in (BASE_DIR / "templates" / "static",) if folder.is_dir()]
# Names with hashes once `collectstatic` has run; before that (tests, development) straight from the apps.
_COLLECTED = (STATIC_ROOT / "staticfiles.json").exists() or "collectstatic" in sys.argv
_PLAIN = "django.contrib.staticfiles.storage.StaticFilesStorage"
_HASHED = "whitenoise.storage.CompressedManifestStaticFilesStorage"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": _HASHED if _COLLECTED else _PLAIN},
}
WHITENOISE_USE_FINDERS = not _COLLECTED
WHITENOISE_AUTOREFRESH = not _COLLECTED
MEDIA_ROOT = STATE_DIR / "uploads"

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

# -- REST --------------------------------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "accounting.api.identity.Bearer",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_FILTER_BACKENDS": [
        "django_filters.rest_framework.DjangoFilterBackend",
        "rest_framework.filters.OrderingFilter",
        "rest_framework.filters.SearchFilter",
    ],
    "DEFAULT_SCHEMA_CLASS": "drf_standardized_errors.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "drf_standardized_errors.handler.exception_handler",
    "SEARCH_PARAM": "q",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
REST_KNOX = {"TOKEN_TTL": None, "AUTO_REFRESH": False, "AUTH_HEADER_PREFIX": "Bearer"}
SPECTACULAR_SETTINGS = {
    "TITLE": "GPU quota platform",
    "DESCRIPTION": "Quotas, devices, pods and the reasons behind every placement.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
}

# -- History, import and export ----------------------------------------------------------------------------------------

SIMPLE_HISTORY_HISTORY_CHANGE_REASON_USE_TEXT_FIELD = True
IMPORT_EXPORT_USE_TRANSACTIONS = False  # the ledger's own transaction is the unit
IMPORT_EXPORT_SKIP_ADMIN_LOG = False

# -- Background work ---------------------------------------------------------------------------------------------------

_BROKER = STATE_DIR / "broker"
CELERY_BROKER_URL = ENV.redis_url or "filesystem://"
if not ENV.redis_url:
    for _folder in ("messages", "control"):
        (_BROKER / _folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        # One folder for both directions: what is put in is what is taken out.
        "data_folder_in": str(_BROKER / "messages"),
        "data_folder_out": str(_BROKER / "messages"),
        "control_folder": str(_BROKER / "control"),
    }
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False  # a lost tick is repeated by the next one
CELERY_WORKER_POOL = "threads"
CELERY_WORKER_CONCURRENCY = 4
CELERY_WORKER_PREFETCH_MULTIPLIER = 1  # a tick taken early only grows old
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # by default a worker ends for good after a hundred tries
CELERY_BEAT_SCHEDULER = "hami_platform.celery:Schedule"
CELERY_TIMEZONE = "UTC"

# -- Logs --------------------------------------------------------------------------------------------------------------

LOGGING_CONFIG = None
logs.configure(ENV.log_level, ENV.log_format)
