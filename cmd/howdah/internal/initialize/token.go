package initialize

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/cmd/howdah/internal/bootstrap"
	"howdah.dev/cmd/howdah/internal/clusterfile"
	"howdah.dev/kit/object"
)

func tokenPhase() Phase {
	return Phase{
		Name: "bootstrap-token", Short: "Make the tokens by which machines join, and see that the cluster tells where it is",
		Run: func(ctx context.Context, e *Env) error {
			client, err := e.API()
			if err != nil {
				return err
			}
			info, err := clusterInfo(ctx, client)
			if err != nil {
				return err
			}
			for _, t := range e.Init.BootstrapTokens {
				grant, err := grantOf(t, e.Clock.Now())
				if err != nil {
					return err
				}
				if _, err := object.For(client, object.Secret).Create(ctx, grant.Secret()); err != nil && !apierrors.IsAlreadyExists(err) {
					return fmt.Errorf("create the token %s: %w", grant.Token.ID, err)
				}
				e.say("[bootstrap-token] machines join by the token %s", grant.Token.ID)
				line, err := info.JoinCommand(grant.Token)
				if err != nil {
					return err
				}
				e.lines = append(e.lines, line)
			}
			return nil
		},
		Tell: func(*Env) string { return "make tokens by which machines join" },
	}
}

func grantOf(t clusterfile.BootstrapToken, now time.Time) (bootstrap.Grant, error) {
	grant := bootstrap.Grant{Description: t.Description, Usages: t.Usages, Groups: t.Groups}
	if grant.Description == "" {
		grant.Description = "made by howdah init"
	}
	if t.TTL.Duration > 0 {
		grant.Expires = now.Add(t.TTL.Duration)
	}
	var err error
	if t.Token == "" {
		grant.Token, err = bootstrap.NewToken()
	} else {
		grant.Token, err = bootstrap.ParseToken(t.Token)
	}
	return grant, err
}

// clusterInfo is what the control plane has made for machines that join, a moment after it is ready.
func clusterInfo(ctx context.Context, client *object.Client) (bootstrap.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, writeFor)
	defer cancel()
	var info bootstrap.Info
	err := bootstrap.UntilDone(ctx, 200*time.Millisecond, func(ctx context.Context) error {
		m, err := object.For(client, object.ConfigMap).Get(ctx, metav1.NamespacePublic, bootstrap.InfoName)
		if err != nil {
			return err
		}
		info, err = bootstrap.ParseInfo(m.Data[bootstrap.InfoKey])
		return err
	})
	return info, err
}
