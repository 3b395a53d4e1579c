package caddymodule

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
)

// How often the gauges over the store are refreshed.
const (
	probeEvery  = 5 * time.Second
	censusEvery = 30 * time.Second
)

// watch keeps the gauges over the store fresh until the context ends.
func (a *App) watch(ctx context.Context) {
	defer close(a.done)
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

// ready returns nil when requests can be settled, and sets the gauge, unless
// whoever asked has left before there was an answer.
func (a *App) ready(ctx context.Context) error {
	err := a.ensureStarted(ctx)
	if err == nil {
		err = a.backend.Ready(ctx)
	}
	if err == nil {
		err = a.keys.Start(ctx) // what could not be read when the store was out of reach
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case err != nil:
		storeUp.Set(0)
		return err
	}
	storeUp.Set(1)
	return nil
}

func (a *App) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := a.ready(ctx); err != nil && ctx.Err() == nil {
		a.log.Warn("the store cannot settle requests; they are answered with 503", zap.Error(err))
	}
}

// takeCensus refreshes the gauges over the keys. They keep their last values
// while the store cannot answer.
func (a *App) takeCensus(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, censusEvery/2)
	defer cancel()
	census, err := a.keys.Census(ctx)
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
