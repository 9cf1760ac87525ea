"""The asynchronous face of the SDK.  The synchronous one is printed from it by `make bless`."""
