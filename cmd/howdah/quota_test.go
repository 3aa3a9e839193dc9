package main

import (
	"strings"
	"testing"
)

func TestDatabaseQuota(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want int64
		err  string
	}{
		{"0", 0, ""},
		{"16Gi", 16 << 30, ""},
		{"1Gi", 1 << 30, ""},
		{"1G", 0, "1G is less than 1Gi"},
		{"-5Gi", 0, "-5Gi is less than 1Gi"},
		{"much", 0, `"much" is no quantity`},
	} {
		got, err := databaseQuota(tt.text)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %d, %v", tt.text, got, err)
		}
	}
}
