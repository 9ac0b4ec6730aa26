/**
 * Decides which connections may wait for their registration, so that no flood of silent connections keeps workers out.
 *
 * A connection without proof has a seat of its address. An address at its maximum displaces its own oldest connection at
 * once: a flood from one address then competes only with itself. A worker behind such an address needs proof, because
 * others may take all seats of the address before the worker registers. When all seats are taken, the oldest connection
 * gives way after two seconds. Before that, only the address that holds the most gives way. Proven connections have
 * seats apart, which connections without proof cannot take. Many machines prove the same join key, so those have seats of
 * their own, and a newcomer without a seat comes back later.
 */

/** Connections that have proved a join key and not registered yet, of all keys together. */
export const WORKERS_JOINING_MAX = 512
/** Connections that have neither registered nor proved in their upgrade who they are: in all, and of one address. */
export const WORKERS_UNREGISTERED_MAX = 64
export const WORKERS_UNREGISTERED_PER_ADDRESS_MAX = 32
/** After this time without a first frame a newcomer of another address may take the connection's place. */
export const WORKER_SEAT_MS_MIN = 2_000
/** Connections of one worker, or with one pairing token, that have proved it and not registered yet. */
export const WORKERS_PROVEN_UNREGISTERED_MAX = 4

export interface Seat {
  readonly number: number
  /** The address, worker, token or join key that the seat counts for. */
  readonly holder: string
  /** Monotonic instant. */
  readonly since: number
}

export type SeatDecision =
  | { readonly is: 'free' }
  /** This connection has to give way. */
  | { readonly is: 'displace'; readonly number: number }
  | { readonly is: 'full' }

/** @param taken the seats of connections without proof, oldest first */
export function chooseUnprovenSeat(taken: readonly Seat[], holder: string, now: number): SeatDecision {
  const own = taken.filter((seat) => seat.holder === holder)
  const [oldestOwn] = own
  if (oldestOwn !== undefined && own.length >= WORKERS_UNREGISTERED_PER_ADDRESS_MAX)
    return { is: 'displace', number: oldestOwn.number }
  return chooseSharedSeat(taken, holder, now, WORKERS_UNREGISTERED_MAX)
}

/** @param taken the seats of connections that proved a join key, oldest first */
export function chooseJoiningSeat(taken: readonly Seat[], holder: string, now: number): SeatDecision {
  return chooseSharedSeat(taken, holder, now, WORKERS_JOINING_MAX)
}

function chooseSharedSeat(
  taken: readonly Seat[],
  holder: string,
  now: number,
  seatsMax: number,
): SeatDecision {
  const own = taken.filter((seat) => seat.holder === holder)
  const [oldest] = taken
  if (oldest === undefined || taken.length < seatsMax) return { is: 'free' }
  if (now - oldest.since >= WORKER_SEAT_MS_MIN) return { is: 'displace', number: oldest.number }
  const most = seatsOfLargestHolder(taken)
  const [first] = most
  if (first === undefined || most.length <= own.length + 1) return { is: 'full' }
  return { is: 'displace', number: first.number }
}

/** @param taken the seats of proven connections, oldest first. A newcomer always has a seat. */
export function chooseProvenSeat(taken: readonly Seat[], holder: string): SeatDecision {
  const own = taken.filter((seat) => seat.holder === holder)
  const [oldest] = own
  if (oldest === undefined || own.length < WORKERS_PROVEN_UNREGISTERED_MAX) return { is: 'free' }
  return { is: 'displace', number: oldest.number }
}

function seatsOfLargestHolder(taken: readonly Seat[]): readonly Seat[] {
  const byHolder = [...new Set(taken.map(({ holder }) => holder))].map((holder) =>
    taken.filter((seat) => seat.holder === holder),
  )
  return byHolder.reduce((most, seats) => (seats.length > most.length ? seats : most), [])
}

const JOIN_KEY_HOLDER = 'join-key '

export const holderOfJoinKey = (id: string): string => `${JOIN_KEY_HOLDER}${id}`
export const isJoinKeyHolder = (holder: string): boolean => holder.startsWith(JOIN_KEY_HOLDER)

/**
 * A machine has all of 127.0.0.0/8 and usually a whole IPv6 /64 network, so each of these is one holder.
 *
 * @param address as IPv4, or as IPv6 in its short form
 */
export function holderOfAddress(address: string): string {
  if (address.startsWith('127.') || address === '::1') return 'loopback'
  if (!address.includes(':')) return address
  const [before = '', after] = address.split('::')
  const groups = before === '' ? [] : before.split(':')
  const rest = after === undefined || after === '' ? [] : after.split(':')
  while (after !== undefined && groups.length + rest.length < 8) groups.push('0')
  return `${[...groups, ...rest].slice(0, 4).join(':')}::/64`
}
