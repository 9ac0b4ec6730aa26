/** Says how old the page is while there is no connection. Soon lost and found again, it is not worth a word. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { Button } from '../../elements/button.tsx'
import { Glyph } from '../../elements/glyph.tsx'
import { formatClock, formatDuration } from '../../text/times.ts'
import { live, tryNow } from '../state/live.ts'
import { isLoaded } from '../state/records.ts'

const SHOWN_AFTER_MS = 5_000
const TICK_MS = 500

export function StaleBanner() {
  const current = live.value
  const present = useSignal(Date.now())
  const isLost = current.state === 'reconnecting'
  useEffect(() => {
    if (!isLost) return undefined
    const timer = setInterval(() => {
      present.value = Date.now()
    }, TICK_MS)
    return () => clearInterval(timer)
  }, [isLost])
  if (current.state !== 'reconnecting') return null
  const age = present.value - current.since
  if (age < SHOWN_AFTER_MS) return null
  const pause = current.nextTryAt === undefined ? 0 : current.nextTryAt - present.value
  return (
    <div class="banner">
      <Glyph name="limit" />
      <span>
        <strong>Reconnecting.</strong>{' '}
        {isLoaded.value && `What you see is from ${formatClock(current.since)}, ${formatDuration(age)} ago. `}
        {pause > 0 ? `Trying again in ${formatDuration(pause + 999)}.` : 'Trying now.'}
      </span>
      <Button small act={tryNow}>
        Try now
      </Button>
    </div>
  )
}
