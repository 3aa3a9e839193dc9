package openapi

import "k8s.io/apimachinery/pkg/runtime/schema"

const openIDModel = text

// general are the documents that are about no group.
var general = map[string]route{
	".well-known/openid-configuration": {id: "getServiceAccountIssuerOpenIDConfiguration", tag: "WellKnown", produces: []string{"application/json"}, answer: openIDModel,
		description: "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'"},
	"openid/v1/jwks": {id: "getServiceAccountIssuerOpenIDKeyset", tag: "openid", produces: []string{"application/jwk-set+json"}, answer: openIDModel,
		description: "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)"},
	"version": {id: "getCodeVersion", tag: "version", consumes: []string{"application/json"}, produces: []string{"application/json"},
		answer: "io.k8s.apimachinery.pkg.version.Info", description: "get the version information for this server"},
	"api": {id: "getCoreAPIVersions", tag: "core", consumes: objectMedia, produces: objectMedia, answer: metaPackage + "APIVersions",
		description: "get available API versions"},
	"apis": {id: "getAPIVersions", tag: "apis", consumes: objectMedia, produces: objectMedia, answer: metaPackage + "APIGroupList",
		description: "get available API versions"},
}

// generalRoute is the route of a general document.
func generalRoute(name string) route {
	r := general[name]
	r.method, r.path = "GET", "/"+name+"/"
	return r
}

// groupRoute tells of a group.
func groupRoute(group string) route {
	gv := schema.GroupVersion{Group: group}
	return route{method: "GET", path: "/apis/" + group + "/", id: "get" + groupName(group) + "APIGroup", tag: tagOf(gv), description: "get information of a group",
		consumes: objectMedia, produces: objectMedia, answer: metaPackage + "APIGroup"}
}

// versionRoute tells of a version's resources.
func versionRoute(gv schema.GroupVersion) route {
	return route{method: "GET", path: rootOf(gv) + "/", id: operationID("get", gv, "APIResources"), tag: tagOf(gv), description: "get available resources",
		consumes: objectMedia, produces: objectMedia, answer: metaPackage + "APIResourceList"}
}
