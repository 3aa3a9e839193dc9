package stream

import (
	"encoding/json"
	"errors"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/gateway/internal/answer"
	"howdah.dev/kit/apistatus"
)

// terminal is the client's end of exec and attach.
type terminal interface {
	// write gives the client data of stdout or stderr.
	write(channel uint32, data []byte) error
	// closeChannel says that stdout or stderr has ended.
	closeChannel(channel uint32)
	// finish gives the client the outcome: a JSON Status.
	finish(status []byte) error
}

// serveTerminal gives the terminal what the target sends, until its end.
func serveTerminal(c *call, t terminal) {
	var outcome []byte
	for {
		frame, err := c.receive()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = apierrors.NewInternalError(errors.New("the stream ended before the command did"))
			}
			if len(outcome) == 0 { // a client takes nothing for success
				outcome = answer.Encode(apistatus.Of(err), answer.JSON)
			}
			break
		}
		switch frame.GetChannel() {
		case stdout, stderr:
			if len(frame.GetData()) > 0 {
				if t.write(frame.GetChannel(), frame.GetData()) != nil {
					return // the client has gone
				}
			}
			if frame.GetClose() {
				t.closeChannel(frame.GetChannel())
			}
		case status:
			outcome = append(outcome, frame.GetData()...)
		}
	}
	if len(outcome) > 0 {
		_ = t.finish(outcome) // an error means that the client has gone
	}
}

// plainOutcome is what clients before v4 of the protocol read: nothing for
// success, else the message.
func plainOutcome(outcome []byte) []byte {
	var s metav1.Status
	if json.Unmarshal(outcome, &s) != nil {
		return outcome
	}
	if s.Status == metav1.StatusSuccess {
		return nil
	}
	return []byte(s.Message)
}
