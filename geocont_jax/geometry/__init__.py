"""What is measured: spectra of weight matrices and how they line up across depth."""
