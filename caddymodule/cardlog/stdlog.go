package cardlog

import "go.uber.org/zap"

// StandardLog is a writer for the standard library's log. It writes one line
// of the level info for each, which names the kind of failure. The text is
// dropped: net/http quotes in it what an upstream sends without being asked.
type StandardLog struct {
	// Logger returns the logger of the configuration of the moment.
	Logger func() *zap.Logger
}

// Write is part of io.Writer. It never fails.
func (l StandardLog) Write(line []byte) (int, error) {
	l.Logger().Info("the standard library reports: " + failureText(string(line)))
	return len(line), nil
}
