module howdah.dev/proto

go 1.26.0

require (
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.28.0
	go.opentelemetry.io/otel v1.43.0 // indirect
	golang.org/x/net v0.52.0 // indirect
	golang.org/x/sys v0.42.0 // indirect
	golang.org/x/text v0.35.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260406210006-6f92a3bedf2d
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260406210006-6f92a3bedf2d // indirect
	google.golang.org/grpc v1.80.0
	google.golang.org/protobuf v1.36.12
)

require go.opentelemetry.io/otel/sdk/metric v1.43.0 // indirect
