"""`python -m geocont_jax.data.prepare NAME --data-dir DIR`: download and prepare a data set with tensorflow-datasets.

Exits with 1 and one line on standard error where that fails.
"""

import argparse
import os
import sys


def prepare(name: str, directory: str) -> None:
    """Prepare the data set as array_record files, which are read without TensorFlow."""
    # The accelerator belongs to JAX in the process that waits for this one; TensorFlow only converts files.
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    import tensorflow_datasets as tfds

    # try_gcs=False: asking the cloud bucket for a prepared copy has been seen to hang for ten minutes.
    builder = tfds.builder(name, data_dir=directory, try_gcs=False, file_format="array_record")
    builder.download_and_prepare()


def main(arguments: list[str] | None = None) -> int:
    """Prepare what the arguments ask for and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m geocont_jax.data.prepare", description=__doc__)
    parser.add_argument("name", help="a data set of tensorflow-datasets, for example mnist")
    parser.add_argument("--data-dir", required=True, help="the folder that holds prepared data sets")
    asked = parser.parse_args(arguments)
    try:
        prepare(asked.name, asked.data_dir)
    except Exception as error:
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
