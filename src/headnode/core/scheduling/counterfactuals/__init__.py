"""What would have to be different for a job to start now, or sooner: answered by the policy itself."""
