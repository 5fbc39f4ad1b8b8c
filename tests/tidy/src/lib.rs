//! Reads the source tree and reports what breaks its rules; the rules are the tests in `tests/`.
