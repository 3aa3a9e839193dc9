package gateway_test

import (
	"log/slog"
	"testing"

	"howdah.dev/gateway"
)

func TestLogLevelIsSetAtDebugFlags(t *testing.T) {
	t.Parallel()
	level := &slog.LevelVar{}
	c := setup(t, func(config *gateway.Config) { config.Profiling, config.LogLevel = true, level })
	for _, tt := range []struct {
		role, method, path, body string
		code                     int
		want                     slog.Level
	}{
		{"admin", "PUT", "/debug/flags/v", "4", 200, slog.LevelDebug},
		{"admin", "PUT", "/debug/flags/v", "0", 200, slog.LevelWarn},
		{"admin", "PUT", "/debug/flags/v", "loud", 400, slog.LevelWarn},
		{"admin", "PUT", "/debug/flags/v", "-1", 400, slog.LevelWarn},
		{"admin", "GET", "/debug/flags/v", "", 406, slog.LevelWarn},
		{"", "PUT", "/debug/flags/v", "4", 401, slog.LevelWarn},
		{"admin", "PUT", "/debug/flags/x", "4", 200, slog.LevelWarn},
		{"admin", "GET", "/debug/flags", "", 200, slog.LevelWarn},
		{"admin", "PUT", "/debug/flags/v", "2", 200, slog.LevelInfo},
	} {
		got := c.do(c.client(tt.role), tt.method, tt.path, tt.body)
		if got.StatusCode != tt.code || level.Level() != tt.want {
			t.Errorf("%+v: %d %s, level %s", tt, got.StatusCode, got.body, level.Level())
		}
	}
	without := setup(t, func(config *gateway.Config) { config.LogLevel = level })
	if got := without.do(without.client("admin"), "PUT", "/debug/flags/v", "4"); got.StatusCode != 404 || level.Level() != slog.LevelInfo {
		t.Errorf("without profiling: %d, level %s", got.StatusCode, level.Level())
	}
}
