"""Settings of the service, read once from the environment (prefix ``AKIN_``) and passed down as values.

| variable            | default     | unit     | meaning                                                    |
|---------------------|-------------|----------|------------------------------------------------------------|
| `AKIN_DATA`         | `akin-data` | folder   | where `akin index` published                               |
| `AKIN_CATALOG_URL`  | empty       | URL      | papers, keys and jobs in PostgreSQL; empty: in `AKIN_DATA` |
| `AKIN_REDIS_URL`    | empty       | URL      | for the cache and rate limits; empty: in-process           |
| `AKIN_CACHE_MIB`    | `64`        | MiB      | cache of answers and vectors in memory; 0: none            |
| `AKIN_KEYLESS`      | `read`      | name     | this machine, without keys: `off`, `read` or `write`       |
| `AKIN_HOST`         | `127.0.0.1` | address  | where to listen                                            |
| `AKIN_PORT`         | `8000`      | port     | where to listen                                            |
| `AKIN_PUBLIC_URL`   | empty       | URL      | its address in links; empty: that of the request           |
| `AKIN_ENCODER`      | empty       | name     | encoder for pasted papers; empty: the snapshot's own       |
| `AKIN_TAGGER`       | empty       | file     | facet weights for pasted papers; empty: the snapshot's own |
| `AKIN_FUNCTIONS`    | empty       | file     | function weights for sentences; empty: the snapshot's own  |
| `AKIN_DEVICE`       | `auto`      | name     | `auto`, `cpu`, `cuda` or `cuda:N`: encoder and index       |
| `AKIN_PRECISION`    | `float32`   | name     | `float32`, `bfloat16` or `auto`: pasted and added papers   |
| `AKIN_TOGETHER`     | `1`         | texts    | simultaneous ones are encoded in a batch of so many        |
| `AKIN_CANDIDATES`   | `200`       | papers   | least number of papers that are re-ranked                  |
| `AKIN_SECRET`       | empty       | text     | signs cursors, feeds; 32 characters or more; empty: stored  |
| `AKIN_LOG_LEVEL`    | `info`      | name     | `debug`, `info`, `warning` or `error`                      |
| `AKIN_RUNNING`      | `0`         | requests | requests that are computed at once; 0: one per core        |
| `AKIN_QUEUE`        | `16`        | requests | waiting requests per running one; others get 503           |
| `AKIN_BATCHES`      | `40`        | batches  | how many may be unfinished, a quarter for one caller       |
| `AKIN_BATCH_DAYS`   | `7`         | days     | how long finished batches are kept                         |
| `AKIN_BATCH_MIB`    | `4096`      | MiB      | what batches of one caller may hold; then new ones get 429 |
| `AKIN_WORKERS`      | `false`     | yes/no   | leave batches to `akin worker`, as long as there is one    |
| `AKIN_DEADLINE_MS`  | `30000`     | ms       | time limit of a request, including waiting                 |
| `AKIN_RATE`         | `6000`      | requests | per minute and key; 0: unlimited                           |
| `AKIN_CORS_ORIGINS` | empty       | origins  | whose pages may call it in a browser, comma-separated      |
| `AKIN_DRAIN_MS`     | `1000`      | ms       | on SIGTERM: from unready until it stops listening          |
| `AKIN_KEEP`         | `3`         | number   | generations that are kept, with the one that is served     |
| `AKIN_SCRUB_MIB_S`  | `20`        | MiB/s    | how fast served files are checked for damage; 0: never     |
| `AKIN_RAY`          | empty       | address  | of a Ray cluster that holds the indexes; `local` starts one |
| `AKIN_SHARDS`       | `0`         | number   | number of shards; 0: one for each machine                  |
| `AKIN_REPLICAS`     | `1`         | number   | number of processes for each shard                         |
| `AKIN_OTLP_ENDPOINT`| empty       | URL      | where traces go (OTLP over HTTP); empty: no traces         |
"""

from enum import StrEnum
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from indexer.files.data_folder import KEEP, DataFolder
from models.encoders.device_names import DEVICE_NAME
from models.errors import InputError
from service.validation import faults_of, sentence

_BESIDE_CLUSTER: Final = "models.encoders.devices:device_beside_cluster"  # by name, as it imports torch


class Keyless(StrEnum):
    """What this machine may do while there are no keys."""

    OFF = "off"
    READ = "read"
    WRITE = "write"


class Settings(BaseSettings):
    """All settings of the service; the table in the module's docstring gives their meanings."""

    # Errors hide their input, which may be a secret. An empty variable counts as not set, because a compose
    # file passes every variable.
    model_config = SettingsConfigDict(
        env_prefix="AKIN_", env_ignore_empty=True, extra="ignore", frozen=True, hide_input_in_errors=True
    )

    data: Path = Path("akin-data")
    catalog_url: SecretStr | None = None
    redis_url: SecretStr | None = None
    cache_mib: int = Field(default=64, ge=0, le=1_000_000)
    keyless: Keyless = Keyless.READ
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    public_url: str = Field(default="", pattern=r"^(https?://[^\s/?#]+(/[^\s?#]*)?)?$")
    encoder: str = ""
    tagger: Path | None = None
    functions: Path | None = None
    device: str = Field(default="auto", pattern=f"^({DEVICE_NAME.pattern})$")
    # With int8, added papers would be less exact than the others of a collection.
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    together: int = Field(default=1, ge=1, le=1_000)
    candidates: int = Field(default=200, ge=1, le=10_000)
    secret: SecretStr | None = Field(default=None, min_length=32)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    running: int = Field(default=0, ge=0, le=1_000)
    queue: int = Field(default=16, ge=0, le=1_000)
    batches: int = Field(default=40, ge=1, le=10_000)
    batch_days: int = Field(default=7, ge=1, le=3_650)
    batch_mib: int = Field(default=4_096, ge=1, le=1_000_000)
    workers: bool = False
    deadline_ms: int = Field(default=30_000, ge=10, le=3_600_000)
    rate: int = Field(default=6_000, ge=0, le=10_000_000)
    cors_origins: str = ""
    drain_ms: int = Field(default=1_000, ge=0, le=600_000)
    keep: int = Field(default=KEEP, ge=1, le=1_000)
    scrub_mib_s: float = Field(default=20.0, ge=0, le=100_000)
    ray: str = Field(default="", pattern=r"^\S*$")
    shards: int = Field(default=0, ge=0, le=1_000)
    replicas: int = Field(default=1, ge=1, le=10)
    otlp_endpoint: str = Field(default="", pattern=r"^(https?://\S+)?$")

    @field_validator("cors_origins")
    @classmethod
    def _expect_origins(cls, given: str) -> str:
        for origin in _listed(given):
            if not _is_origin(origin):
                raise ValueError(
                    f"{origin[:60]!r} is not an origin such as https://example.org or http://127.0.0.1:3000; "
                    "give scheme and host in lower case, no path and no slash at the end"
                )
        return given

    @property
    def catalog(self) -> str | Path:
        """The place of papers, keys and jobs: a URL, or the SQLite file of the data folder."""
        if self.catalog_url is not None and self.catalog_url.get_secret_value():
            return self.catalog_url.get_secret_value()
        return DataFolder(self.data).catalog

    @property
    def own_device(self) -> str:
        """The device of this process, which needs no GPU if ``device`` names those of a cluster."""
        if not self.ray or not self.device.startswith("cuda"):
            return self.device
        own: str = resolve_name(_BESIDE_CLUSTER)(self.device)
        return own

    @property
    def deadline_s(self) -> float:
        """The time limit of a request, in seconds."""
        return self.deadline_ms / 1000

    @property
    def redis(self) -> str | None:
        """The URL of Redis, if there is one."""
        return (self.redis_url and self.redis_url.get_secret_value()) or None

    @property
    def cors_origin_list(self) -> list[str]:
        """The origins whose pages may call the service."""
        return _listed(self.cors_origins)


def _listed(given: str) -> list[str]:
    return [each.strip() for each in given.split(",") if each.strip()]


def _is_origin(given: str) -> bool:
    """Return whether a browser could send this origin, or it stands for all."""
    scheme, host = urlsplit(given)[:2]
    return given == "*" or bool(scheme and host and "@" not in host and given == f"{scheme}://{host.lower()}")


def settings_of(**given: Any) -> Settings:
    """Return the settings; those not ``given``, or ``None``, are from the environment. Raises InputError."""
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = faults_of(error.errors())[0]
        variable = f"AKIN_{first.loc[0]}".upper()
        raise InputError(f"{sentence(variable, first.said)}.") from error
