-- What all gateways must agree on about the servers. KEYS[1] a hash: epoch, floor,
-- fences, and m:<identity> = when the server was first seen (s:<identity> by
-- versions that knew one floor for all). ARGV: tag, the epoch to write if there
-- is none (empty: write nothing then), the least floor, whether to raise the
-- floor to now, the fences that the gateway knows of; then five for each server: its identity, the
-- identity that handed everything over to it (or empty), since when the gateway
-- has seen it, the least floor of its slots, its slots.
--
-- A floor is the last moment at which nonces may have been lost, in
-- microseconds: "floor" of all slots, "fences" of some of them. That of a
-- server's slots rises when its identity is new on a store that was in use,
-- unless a known one handed over to it. The reply is {tag, epoch, floor,
-- fences}, or {tag} when there is no epoch.
local KEEP, DAY, FORGET, MOST = 100, 86400000000, 10800000000, 64
local tag, new_epoch, least, raise = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
local now = clock()
local stored = redis.call('HMGET', KEYS[1], 'epoch', 'floor', 'fences')
local epoch, floor = stored[1], tonumber(stored[2] or '0')
local fresh = not epoch
if fresh then
  if new_epoch == '' then return {tag} end
  epoch = new_epoch
  redis.call('HSET', KEYS[1], 'epoch', epoch)
end
if redis.call('HLEN', KEYS[1]) > KEEP then
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    if string.match(all[i], '^[ms]:') and now - tonumber(all[i + 1]) > DAY then
      redis.call('HDEL', KEYS[1], all[i])
    end
  end
end

local before = floor
if raise then floor = math.max(floor, now) end
floor = math.max(floor, least)

local fences = {}  -- {slots, at}, of which a request may still be in a window
local function fence(slots, at)
  if slots == '0-16383' then
    floor = math.max(floor, at)
    return
  end
  if at + FORGET < now then return end
  for i, f in ipairs(fences) do
    if f[1] == slots then
      f[2] = math.max(f[2], at)
      return
    end
  end
  fences[#fences + 1] = {slots, at}
end
local function fence_all(text, at)
  for slots in string.gmatch(text, '%d+-%d+') do fence(slots, at) end
end
for slots, at in string.gmatch((stored[3] or '') .. ' ' .. ARGV[5], '(%d+-%d+)=(%d+)') do
  fence(slots, tonumber(at))
end

local function known(identity)
  return redis.call('HEXISTS', KEYS[1], 'm:' .. identity) == 1 or redis.call('HEXISTS', KEYS[1], 's:' .. identity) == 1
end
for i = 6, #ARGV, 5 do
  local identity, from, at, bound, slots = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3], ARGV[i + 4]
  if not fresh and not known(identity) and not (from ~= '' and known(from)) then
    fence_all(slots, at)
  end
  if bound ~= '0' then fence_all(slots, tonumber(bound)) end
  redis.call('HSETNX', KEYS[1], 'm:' .. identity, int(now))
end

if #fences > MOST then  -- too many to look through with every request
  for _, f in ipairs(fences) do floor = math.max(floor, f[2]) end
  fences = {}
end
local text = {}
for i, f in ipairs(fences) do text[i] = f[1] .. '=' .. int(f[2]) end
text = table.concat(text, ' ')
if floor > before then redis.call('HSET', KEYS[1], 'floor', int(floor)) end
if text ~= (stored[3] or '') then redis.call('HSET', KEYS[1], 'fences', text) end
return {tag, epoch, int(floor), text}
