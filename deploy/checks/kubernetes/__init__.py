"""The manifests of `deploy/kubernetes` are what Kubernetes accepts, and describe the services as they are."""
