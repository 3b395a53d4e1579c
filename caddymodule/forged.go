package caddymodule

import (
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/keys"
)

// recordForged logs and counts a record that was refused because something other
// than a gateway has changed it.
func (t *telemetry) recordForged(e *keys.ForgedError) {
	forgedRecordsTotal.WithLabelValues(e.Field).Inc()
	// The sampler compares messages, so the key is part of it.
	t.forged.Error("the record of key "+e.KeyID+" was changed by something other than a gateway; its requests are answered with 503",
		zap.String("key_id", e.KeyID), zap.String("field", e.Field), zap.String("problem", e.Reason()))
}

// reportUnsealed warns when the number of keys without a seal has changed.
func (t *telemetry) reportUnsealed(n int) {
	if t.unsealed.Swap(int64(n)) != int64(n) && n > 0 {
		t.log.Warn("records of keys have no seal, so whoever can write to the store can grant them anything; check and seal them by `card-keys seal`, then set `seal required`",
			zap.Int("keys", n))
	}
}
