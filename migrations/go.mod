module howdah.dev/migrations

go 1.26.0

require (
	github.com/jackc/pgx/v5 v5.13.0
	howdah.dev/kit v0.0.0
)

replace (
	howdah.dev/kit => ../kit
	howdah.dev/proto => ../proto
)

require (
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	golang.org/x/sync v0.25.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
