package cardlog

import "go.uber.org/zap"

// StandardLog is a writer for the standard library's log. For each line it writes
// the kind of failure, at the level info. It drops the text, because net/http
// quotes in it bytes that an upstream sent unasked.
type StandardLog struct {
	// Logger returns the logger of the current configuration.
	Logger func() *zap.Logger
}

// Write is part of io.Writer. It never fails.
func (l StandardLog) Write(line []byte) (int, error) {
	l.Logger().Info("the standard library reports: " + failureText(string(line)))
	return len(line), nil
}
