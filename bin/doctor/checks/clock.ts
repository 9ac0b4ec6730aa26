/** Compares this machine's clock with the tracker and the code host, and asks no other service for the time. */
import { DOCTOR_CLOCK_FAIL_MS, DOCTOR_CLOCK_WARN_MS } from '../../../protocol/limits.ts'
import { formatAge } from '../../output/times.ts'
import { type Check, fail, ok, warn } from '../finding.ts'

const CURE = 'sudo timedatectl set-ntp true'

export const clockCheck: Check = {
  id: 'clock',
  places: ['host'],
  async judge({ trackerAccount, codehostAccount, clocks }) {
    await Promise.all([trackerAccount(), codehostAccount()])
    const [farthest] = [...clocks].sort((a, b) => Math.abs(b.aheadMs) - Math.abs(a.aheadMs))
    if (farthest === undefined) return [ok('not compared: no service that tells the time was asked')]
    const { service, aheadMs } = farthest
    const off = Math.abs(aheadMs)
    if (off < DOCTOR_CLOCK_WARN_MS) return [ok(`agrees with ${service}`)]
    const message = `this clock is ${formatAge(off)} ${aheadMs > 0 ? 'ahead of' : 'behind'} ${service}`
    return [off < DOCTOR_CLOCK_FAIL_MS ? warn(message, CURE) : fail(message, CURE)]
  },
}
