/** Judges the tracker and its last poll. Runs that are queued already go on without both. */

import type { Gate } from '../../protocol/explain.ts'
import { formatDuration } from '../format-duration.ts'
import { connectTrackerCommand } from './connect-command.ts'
import type { ExplainFacts } from './facts.ts'
import { pass, stop, wait } from './gate.ts'

export function judgeTracker({ config, tracker }: ExplainFacts): Gate {
  const { driver } = config.tracker
  const because = tracker.error === undefined ? '' : `: ${tracker.error}`
  switch (tracker.state) {
    case 'connected':
      return pass('tracker', `${driver}, connected`)
    case 'refresh-failing':
      return wait('tracker', `${driver}, its token is being refreshed${because}`)
    case 'auth-error':
      return stop('tracker', `${driver} refuses the credential${because}`, connectTrackerCommand(driver))
    case 'disconnected':
      return stop('tracker', `${driver}, not connected${because}`, connectTrackerCommand(driver))
  }
}

/** A poll is late when two more should have followed it. */
const POLLS_MISSED_MIN = 2

export function judgeLastPoll({ config, tracker, now }: ExplainFacts): Gate {
  const { lastPollAt, error } = tracker
  const everyMs = config.tracker.pollSeconds * 1000
  const every = `every ${formatDuration(everyMs)}`
  const problem = error === undefined ? '' : `; ${error}`
  if (lastPollAt === undefined) return wait('last poll', `none yet, ${every}${problem}`)
  const ageMs = Math.max(0, now - Date.parse(lastPollAt))
  const message = `${formatAge(ageMs)} ago, ${every}${problem}`
  return ageMs > POLLS_MISSED_MIN * everyMs ? wait('last poll', message) : pass('last poll', message)
}

const formatAge = (ms: number): string => formatDuration(Math.round(ms / 1000) * 1000)
