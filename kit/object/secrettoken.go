package object

// SecretTokenAnnotation, with the value "true" on a TokenRequest that is bound to a Secret of the type kubernetes.io/service-account-token, asks for what
// such Secrets hold: a token without an end, which is good while that Secret holds it, and for nothing else.
const SecretTokenAnnotation = "howdah.dev/secret-token"
