package caddymodule

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// How often the gauges over the store are refreshed.
const (
	probeEvery  = 5 * time.Second
	censusEvery = 30 * time.Second
)

// idsEvery is how often a gateway asks which ids others have imported.
const idsEvery = time.Second

// refreshIDs keeps the ids of keys known until the context ends. An error needs
// no word: the probe of the store logs why it does not answer.
func (a *App) refreshIDs(ctx context.Context) {
	tick := time.NewTicker(idsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = a.state.keys.RefreshIDs(ctx)
		}
	}
}

// refreshGauges keeps the gauges over the store fresh until the context ends.
func (a *App) refreshGauges(ctx context.Context) {
	probe, census := time.NewTicker(probeEvery), time.NewTicker(censusEvery)
	defer probe.Stop()
	defer census.Stop()
	a.probe(ctx)
	a.takeCensus(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-probe.C:
			a.probe(ctx)
		case <-census.C:
			a.takeCensus(ctx)
		}
	}
}

// probe warns when the store cannot settle requests. It also takes the standard
// log back, which a configuration that Caddy refused may have taken.
func (a *App) probe(ctx context.Context) {
	takeStandardLog()
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := a.state.ready(ctx); err != nil && ctx.Err() == nil {
		a.telemetry.log.Warn("the store cannot settle requests; they are answered with 503", zap.Error(err))
	}
}

// takeCensus refreshes the gauges over the keys. They keep their last values
// while the store cannot answer.
func (a *App) takeCensus(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, censusEvery/2)
	defer cancel()
	census, err := a.state.keys.Census(ctx)
	if err != nil {
		return
	}
	for status, n := range census.Keys {
		keysByStatus.WithLabelValues(status).Set(float64(n))
	}
	for within, n := range census.Expiring {
		keysExpiring.WithLabelValues(within).Set(float64(n))
	}
}
