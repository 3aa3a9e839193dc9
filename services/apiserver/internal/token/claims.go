package token

import "encoding/json"

// audience is one string or several.
type audience []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audience) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(a))
}

type reference struct {
	Name string `json:"name"`
	UID  string `json:"uid,omitempty"` // empty of a pod's node that there is not
}

// bound is what a token depends on.
type bound struct {
	Namespace      string     `json:"namespace"`
	Node           *reference `json:"node,omitempty"`
	Pod            *reference `json:"pod,omitempty"`
	Secret         *reference `json:"secret,omitempty"`
	ServiceAccount reference  `json:"serviceaccount"`
	// WarnAfter is when the token should have been replaced, in seconds of the epoch, where it lasts longer than it was asked for.
	WarnAfter int64 `json:"warnafter,omitempty"`
}

// claims are a token's.
type claims struct {
	Audience  audience `json:"aud"`
	Expires   int64    `json:"exp"`
	IssuedAt  int64    `json:"iat"`
	Issuer    string   `json:"iss"`
	ID        string   `json:"jti"`
	Bound     bound    `json:"kubernetes.io"`
	NotBefore int64    `json:"nbf"`
	Subject   string   `json:"sub"`
}
