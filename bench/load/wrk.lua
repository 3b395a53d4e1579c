-- Sends signed requests: heads from a file, all of one length, and the same
-- body with each. Arguments: the file of heads, the length of a head in bytes,
-- the file of the body, "once" or "again" (whether heads may be sent a second
-- time).
local heads, body, next_head, again = {}, '', 0, false
exhausted = false  -- read by done

local threads = {}
function setup(thread) threads[#threads + 1] = thread end

function init(args)
  local file = assert(io.open(args[1], 'rb'))
  local length = tonumber(args[2])
  while true do
    local head = file:read(length)
    if not head then break end
    heads[#heads + 1] = head
  end
  file:close()
  file = assert(io.open(args[3], 'rb'))
  body = file:read('*a') or ''
  file:close()
  again = args[4] == 'again'
end

function request()
  next_head = next_head + 1
  if next_head > #heads then
    exhausted = exhausted or not again
    next_head = 1
  end
  if body == '' then return heads[next_head] end
  return heads[next_head] .. body
end

function done(summary, latency, requests)
  local exhausted = 0
  for _, thread in ipairs(threads) do
    if thread:get('exhausted') then exhausted = 1 end
  end
  local e = summary.errors
  io.write(string.format(
    'bench {"requests":%d,"micros":%d,"p50":%d,"p99":%d,"p999":%d,"refused":%d,"broken":%d,"exhausted":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency:percentile(99.9),
    e.status, e.connect + e.read + e.write + e.timeout, exhausted))
end
