"""Settings of the service, read once from the environment (prefix ``AKIN_``) and passed down as values.

| variable          | default     | unit       | meaning                                                    |
|-------------------|-------------|------------|------------------------------------------------------------|
| `AKIN_DATA`       | `akin-data` | folder     | where `akin index` published                               |
| `AKIN_HOST`       | `127.0.0.1` | address    | where to listen                                            |
| `AKIN_PORT`       | `8000`      | port       | where to listen                                            |
| `AKIN_ENCODER`    | empty       | name       | encoder for pasted papers; empty: the snapshot's own       |
| `AKIN_TAGGER`     | empty       | file       | facet weights for pasted papers; empty: the snapshot's own |
| `AKIN_FUNCTIONS`  | empty       | file       | function weights for sentences; empty: the snapshot's own  |
| `AKIN_DEVICE`     | `auto`      | name       | `auto`, `cpu` or `cuda`, for the encoder and the index     |
| `AKIN_CANDIDATES` | `200`       | papers     | how many papers single match hands to the re-ranking       |
| `AKIN_LOG_LEVEL`  | `info`      | name       | `debug`, `info`, `warning` or `error`                      |
"""

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Every setting of the service; the module's table says what each means."""

    model_config = SettingsConfigDict(env_prefix="AKIN_", extra="ignore", frozen=True)

    data: Path = Path("akin-data")
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    encoder: str = ""
    tagger: Path | None = None
    functions: Path | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    candidates: int = Field(default=200, ge=1, le=10_000)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
