package auth

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// ParseAllowedIPs returns the networks of a key's whitelist (rule 6). An entry
// is an address or a CIDR network of IPv4 or IPv6, without leading zeros, zones
// or other forms that parsers read differently. An IPv4-mapped IPv6 entry
// becomes the IPv4 network. Prefix.String returns the canonical form of an
// entry. Duplicates are dropped.
//
// For a nil list it returns nil, which allows every address. An empty list is
// an error, because it could mean "nobody" as well as "everybody". A network
// whose address has bits beyond its mask is an error that shows the masked
// network.
func ParseAllowedIPs(list []string) ([]netip.Prefix, error) {
	if list == nil {
		return nil, nil
	}
	if len(list) == 0 {
		return nil, errors.New("the list of allowed addresses is empty: name at least one, or leave the list out to allow every address")
	}
	prefixes := make([]netip.Prefix, 0, len(list))
	for _, entry := range list {
		p, err := parseAllowedIP(entry)
		if err != nil {
			return nil, fmt.Errorf("bad allowed address %q: %w", entry, err)
		}
		if !slices.Contains(prefixes, p) {
			prefixes = append(prefixes, p)
		}
	}
	return prefixes, nil
}

func parseAllowedIP(entry string) (netip.Prefix, error) {
	host, mask, hasMask := strings.Cut(entry, "/")
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}, errors.New("write an IPv4 or IPv6 address or network, such as 203.0.113.7, 203.0.113.0/24 or 2001:db8::/48")
	}
	if addr.Zone() != "" {
		return netip.Prefix{}, errors.New("leave out the zone, it means nothing to another host")
	}
	bits := addr.BitLen()
	if hasMask {
		if bits, err = parseMask(mask, addr.BitLen()); err != nil {
			return netip.Prefix{}, err
		}
	}
	if addr.Is4In6() {
		if bits < 96 {
			return netip.Prefix{}, errors.New("the mask of an IPv4-mapped network must be /96 to /128; write the IPv4 network instead")
		}
		addr, bits = addr.Unmap(), bits-96
	}
	p := netip.PrefixFrom(addr, bits)
	if p.Masked() != p {
		return netip.Prefix{}, fmt.Errorf("the address has bits beyond its mask; the network is %s", p.Masked())
	}
	return p, nil
}

// parseMask returns the length of a mask in bits, from 0 to most. The text must
// be decimal digits without leading zeros.
func parseMask(s string, most int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || strconv.Itoa(n) != s || n < 0 || n > most {
		return 0, fmt.Errorf("the mask must be a number from 0 to %d", most)
	}
	return n, nil
}

// allowsClient reports whether the address is on the whitelist, or the list is
// nil. The zero address, of an unknown client, is on no list.
func allowsClient(list []netip.Prefix, client netip.Addr) bool {
	if list == nil {
		return true
	}
	client = client.Unmap().WithZone("")
	for _, p := range list {
		if p.Contains(client) {
			return true
		}
	}
	return false
}
