"""hf:org/name: what is downloaded of a repository on the Hugging Face Hub, its config and its safetensors files."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from geocont_jax.errors import InputError
from geocont_jax.pretrained.safetensors_files import read_weight_map
from geocont_jax.pretrained.untrusted import first_of

PREFIX = "hf:"
INDEX = "model.safetensors.index.json"
WEIGHTS = "model.safetensors"
TIMEOUT_SECONDS = 10.0
WAY_ON = "or download its folder by other means and name that"


def download(name: str) -> Path:
    """Return the index (its shards are beside it) or the file of hf:org/name, in the local cache of the Hub.

    What the cache holds is used where the Hub is not reached within `TIMEOUT_SECONDS`.
    Raises InputError where the package is not installed, and where neither has the repository's safetensors files.
    """
    if not re.fullmatch(r"hf:[\w.-]+/[\w.-]+", name, re.ASCII):
        raise InputError(f"{name}: must be hf:org/name")
    try:
        import huggingface_hub
    except ImportError as error:
        raise InputError(
            f"{name}: downloading needs {error.name}, which is not installed; pip install 'geocont_jax[hf]', {WAY_ON}"
        ) from None
    listed, trouble = _list_files(huggingface_hub, name)
    fetch = _fetcher(huggingface_hub, name, listed)
    fetch("config.json")
    if index := fetch(INDEX):
        for shard in sorted(set(read_weight_map(index).values())):
            fetch(shard)
        return index
    if weights := fetch(WEIGHTS):
        return weights
    if listed is None:
        raise InputError(
            f"{name}: the Hub is not reached ({trouble}) and the cache has no such files; try again, {WAY_ON}"
        )
    raise InputError(f"{name}: has neither {WEIGHTS} nor {INDEX}, only {first_of(sorted(listed))}; {WAY_ON}")


def _list_files(hub: Any, name: str) -> tuple[set[str] | None, str]:
    """Return the files of a repository, or None and the reason where the Hub is not reached."""
    try:
        found = hub.HfApi().model_info(name.removeprefix(PREFIX), timeout=TIMEOUT_SECONDS)
    except hub.errors.RepositoryNotFoundError:
        raise InputError(f"{name}: not on the Hub, or private; check the name, or log in with hf auth login") from None
    except Exception as error:  # of the package's HTTP client, which is another one in each of its versions
        return None, _short(error)
    return {file.rfilename for file in found.siblings or ()}, ""


def _fetcher(hub: Any, name: str, listed: set[str] | None) -> Callable[[str], Path | None]:
    """Return the function that brings a file of the repository into the cache, or returns None where it has none."""

    def fetch(file: str) -> Path | None:
        if listed is not None and file not in listed:
            return None
        try:
            return Path(hub.hf_hub_download(name.removeprefix(PREFIX), file, local_files_only=listed is None))
        except Exception as error:
            if listed is None:  # the cache does not have it
                return None
            raise InputError(f"{name}: {file} could not be downloaded ({_short(error)}); try again, {WAY_ON}") from None

    return fetch


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
