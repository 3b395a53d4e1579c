package caddymodule

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/caddymodule/peek"
	"github.com/card-gateway/card-gateway/keys"
)

// How often the store is probed and the keys are counted.
const (
	probeEvery  = 5 * time.Second
	censusEvery = 30 * time.Second
)

// idsEvery is how often a gateway asks which ids others have imported.
const idsEvery = time.Second

// upkeep is the background work of a configuration.
type upkeep struct {
	state     *state
	telemetry *telemetry
	served    *certificates // nil: nothing uses TLS
	admin     string        // path of the admin socket; empty: there is none
	running   sync.WaitGroup
	cancel    context.CancelFunc // nil before the start
}

func (u *upkeep) start() {
	ctx, cancel := context.WithCancel(context.Background())
	u.cancel = cancel
	u.running.Go(func() { u.refreshGauges(ctx) })
	u.running.Go(func() { u.refreshIDs(ctx) })
}

// stop ends the work and waits for its end. It reports whether there was any.
func (u *upkeep) stop() bool {
	if u.cancel == nil {
		return false
	}
	u.cancel()
	u.running.Wait()
	return true
}

// refreshIDs reads the ids of new keys until the context ends. It ignores errors,
// because probe logs why the store does not answer.
func (u *upkeep) refreshIDs(ctx context.Context) {
	tick := time.NewTicker(idsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = u.state.keys.RefreshIDs(ctx)
		}
	}
}

// refreshGauges refreshes the gauges of the store and the keys until the context
// ends.
func (u *upkeep) refreshGauges(ctx context.Context) {
	probe, census := time.NewTicker(probeEvery), time.NewTicker(censusEvery)
	defer probe.Stop()
	defer census.Stop()
	u.probe(ctx)
	u.takeCensus(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-probe.C:
			u.probe(ctx)
		case <-census.C:
			u.takeCensus(ctx)
		}
	}
}

// probe warns when the store cannot settle requests, and reports other trouble.
// It also takes the standard log back, which a configuration that Caddy refused
// may have taken.
func (u *upkeep) probe(ctx context.Context) {
	takeStandardLog()
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := u.state.ready(ctx); err != nil && ctx.Err() == nil {
		u.telemetry.log.Warn("the store cannot settle requests; they are answered with 503", zap.Error(err))
	}
	_ = u.state.audit.check(ctx) // degraded reports lost lines
	u.state.reportFloor(ctx)
	u.served.report(time.Now())
	checkAdminSocket(ctx, u.admin, u.telemetry.log)
	u.telemetry.reportDegraded(u.state.degraded(ctx))
}

// takeCensus refreshes the gauges of the keys. They keep their last values
// while the store cannot answer.
func (u *upkeep) takeCensus(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, censusEvery/2)
	defer cancel()
	census, err := u.state.keys.Census(ctx)
	if err != nil {
		return
	}
	for status, n := range census.Keys {
		keysByStatus.WithLabelValues(status).Set(float64(n))
	}
	for state, n := range census.Seals {
		keySeals.WithLabelValues(state).Set(float64(n))
	}
	u.telemetry.reportUnsealed(census.Seals[keys.SealUnsealed])
	for within, n := range census.Expiring {
		keysExpiring.WithLabelValues(within).Set(float64(n))
	}
}

var errOtherProcess = errors.New("another process listens there")

// adminSocketOf returns the path of the admin socket of a configuration, empty if
// its admin endpoint is off or no unix socket.
func adminSocketOf(ctx caddy.Context) string {
	admin, _ := peek.Admin(ctx)
	if admin == nil || admin.Disabled {
		return ""
	}
	address, err := caddy.NewReplacer().ReplaceOrErr(cmp.Or(admin.Listen, caddy.DefaultAdminListen), true, true)
	if err != nil {
		return ""
	}
	place, err := caddy.ParseNetworkAddress(address)
	if err != nil || place.Network != "unix" {
		return ""
	}
	path, _, _ := strings.Cut(place.Host, "|") // behind it are the permissions
	return path
}

// checkAdminSocket finds out whether calls to the admin socket still reach this
// process, and logs when that begins to fail. Any Caddy that starts with the same
// admin endpoint removes the socket and opens its own.
func checkAdminSocket(ctx context.Context, path string, log *zap.Logger) {
	var err error
	if path != "" {
		err = reachesUs(ctx, path)
	}
	if before := process.adminLost.Swap(err != nil); err != nil && !before {
		log.Warn("another process has taken the admin socket, or it was removed: card-keys and a reload do not reach this gateway; restart it", zap.String("socket", path), zap.Error(err))
	}
}

// reachesUs returns an error if nobody or another process listens on a socket. A
// socket that cannot be tested is not reported.
func reachesUs(ctx context.Context, path string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
		return err
	case err != nil:
		return nil
	}
	defer conn.Close()
	if socket, ok := conn.(*net.UnixConn); ok && ofAnotherProcess(socket) {
		return errOtherProcess
	}
	return nil
}
