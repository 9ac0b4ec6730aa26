/** The bars of a run's attempts on a common axis, and the same as a list for those who do not see them. */

import type { Run } from '../../../protocol/run.ts'
import { now } from '../../elements/moments.tsx'
import { capitalized } from '../../text/sentences.ts'
import { formatClock, formatDuration } from '../../text/times.ts'
import { attemptsAddress } from '../addresses.ts'
import type { RunChanges } from './run-diff.tsx'
import { type TimelineAttempt, type TimelinePart, timelineOf } from './timeline.ts'

const WIDTH = 1000
const HEIGHT = 18
/** A label needs about so much of the axis. */
const LABEL_SHARE_MIN = 0.11

export function TimelineBars({ run, changes }: { readonly run: Run; readonly changes: RunChanges }) {
  const attempts = timelineOf(run, changes.changes, now.value)
  if (attempts.length === 0) return null
  return (
    <section class="card timeline" aria-label="Timeline">
      {attempts.map((attempt) => (
        <AttemptBar key={`${attempt.number} ${attempt.tries === undefined}`} attempt={attempt} />
      ))}
      {attempts.some(({ number }) => number > 1) && (
        <p class="timeline-compare">
          <a href={attemptsAddress(run.id)}>Compare attempts</a>
        </p>
      )}
      {changes.isPartial && <p class="faint">The log is long; attempts in its middle are not drawn.</p>}
    </section>
  )
}

function AttemptBar({ attempt }: { readonly attempt: TimelineAttempt }) {
  const { number, tries, nextAt, parts, end } = attempt
  return (
    <div class="timeline-row">
      <span>{tries === undefined ? `Attempt ${number}` : `Publishing, try ${tries}`}</span>
      <div class="timeline-track">
        <svg
          class="timeline-bar"
          viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
          preserveAspectRatio="none"
          aria-hidden="true"
        >
          {parts.map((part) => (
            <rect
              key={part.from}
              class={`timeline-part ${part.status}`}
              x={part.start * WIDTH}
              width={Math.max(2, part.length * WIDTH - 1)}
              height={HEIGHT}
              rx="2"
            >
              <title>{describe(part)}</title>
            </rect>
          ))}
        </svg>
        {parts
          .filter(({ length }) => length >= LABEL_SHARE_MIN)
          .map((part) => (
            <span
              key={part.from}
              class={`timeline-label ${part.status}`}
              aria-hidden="true"
              ref={(label) => {
                label?.style.setProperty('left', `${100 * part.start}%`)
                label?.style.setProperty('max-width', `${100 * part.length}%`)
              }}
            >
              {part.isCompressed ? '⋯ ' : ''}
              {capitalized(part.status)} {formatDuration(part.to - part.from)}
            </span>
          ))}
        <ul class="visually-hidden">
          {parts.map((part) => (
            <li key={part.from}>{describe(part)}</li>
          ))}
        </ul>
      </div>
      <span class={`timeline-end ${end === undefined ? 'tone-accent' : 'quiet'}`} title={end}>
        {end ?? (nextAt === undefined ? 'Now' : `Next at ${formatClock(nextAt)}`)}
      </span>
    </div>
  )
}

const describe = ({ status, from, to }: TimelinePart): string =>
  `${capitalized(status)} ${formatDuration(to - from)}, from ${formatClock(from)} to ${formatClock(to)}`
