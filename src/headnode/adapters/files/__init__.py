"""Files at paths that other users may change: how they are opened, and who may have written them."""
