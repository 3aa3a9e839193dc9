package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// callTimeout is how long a plugin may take to answer.
const callTimeout = 10 * time.Second

// unknownType says that the node has no use for a plugin.
type unknownType struct{ kind string }

func (e *unknownType) Error() string {
	return fmt.Sprintf("no handler registered for plugin type: %s", e.kind)
}

// ask dials the socket of a plugin and asks what it is.
func ask(ctx context.Context, path string) (*grpc.ClientConn, Plugin, error) {
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, Plugin{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	info, err := registerapi.NewRegistrationClient(conn).GetInfo(ctx, &registerapi.InfoRequest{})
	if err == nil && info.GetName() == "" {
		err = errors.New("it has no name")
	}
	if err != nil {
		_ = conn.Close()
		return nil, Plugin{}, fmt.Errorf("ask a plugin what it is: %w", err)
	}
	p := Plugin{Type: info.GetType(), Name: info.GetName(), Endpoint: info.GetEndpoint(), Versions: info.GetSupportedVersions()}
	if p.Endpoint == "" {
		p.Endpoint = path
	}
	return conn, p, nil
}

// tell says to the plugin how its registration went.
func tell(ctx context.Context, conn *grpc.ClientConn, problem error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	status := &registerapi.RegistrationStatus{PluginRegistered: problem == nil}
	if problem != nil {
		status.Error = "RegisterPlugin error -- plugin registration failed with err: " + problem.Error()
	}
	_, err := registerapi.NewRegistrationClient(conn).NotifyRegistrationStatus(ctx, status)
	return err
}
