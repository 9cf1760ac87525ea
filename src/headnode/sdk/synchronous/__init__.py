"""The synchronous face of the SDK, printed from the asynchronous one; only `connection` is by hand."""
