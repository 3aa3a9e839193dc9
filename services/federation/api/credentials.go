package api

import corev1 "k8s.io/api/core/v1"

// CredentialsType is the type of the Secrets that clusters name. No other is read: who may make a Cluster does not get at other Secrets by it.
const CredentialsType corev1.SecretType = Group + "/credentials"
