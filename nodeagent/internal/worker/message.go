package worker

import (
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/logs"
)

// Bounds of a termination message, in bytes and, where it is the log's end,
// in lines.
const (
	maxMessage    = 4096
	maxLogMessage = 2048
	maxLogLines   = 80
)

// readMessages completes runs that have ended with what they left to say.
func (w *worker) readMessages(observed *cri.Pod) {
	for i := range observed.Containers {
		run := &observed.Containers[i]
		if run.State == cri.Exited && run.Message == "" {
			run.Message = w.message(run)
		}
	}
}

func (w *worker) message(run *cri.Container) string {
	text := head(run.Annotations[cri.AnnotationMessageFile])
	if text == "" && run.ExitCode != 0 &&
		run.Annotations[cri.AnnotationMessagePolicy] == string(corev1.TerminationMessageFallbackToLogsOnError) {
		text = logs.LastLines(run.LogPath, maxLogLines, maxLogMessage)
	}
	return text
}

func head(path string) string {
	if path == "" {
		return ""
	}
	file, err := os.Open(path)
	if err != nil {
		return "" // it is gone with the pod
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxMessage))
	if err != nil {
		return ""
	}
	return string(data)
}
