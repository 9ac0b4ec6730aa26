/** The review that is being written: how many comments wait in it, and the ways to send it. */
import { useSignal } from '@preact/signals'
import { useActs } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { showDialog } from '../../elements/dialog.tsx'
import { TextField } from '../../elements/field.tsx'
import { FormDialog } from '../../elements/form-dialog.tsx'
import { showOutcome } from '../../elements/toasts.ts'
import { countOf } from '../../text/amounts.ts'
import type { DiffState } from '../diff/diff-state.ts'
import { host } from '../state/host.ts'
import type { OpenPull } from './pull-page.tsx'

type ReviewEvent = 'APPROVE' | 'REQUEST_CHANGES' | 'COMMENT'

const EVENTS: readonly (readonly [event: ReviewEvent, act: string, done: string])[] = [
  ['COMMENT', 'Comment', 'Your review is sent.'],
  ['APPROVE', 'Approve', 'You have approved it.'],
  ['REQUEST_CHANGES', 'Request changes', 'You have requested changes.'],
]

export interface ReviewBarProps {
  readonly open: OpenPull
  readonly state: DiffState
}

export function ReviewBar({ open, state }: ReviewBarProps) {
  const { pull } = open
  const isOver = pull.state === 'merged' || pull.state === 'closed'
  const unavailable = isOver ? `It is ${pull.state}.` : undefined
  const ask = (event: ReviewEvent) => () =>
    showDialog((close) => <ReviewForm open={open} state={state} event={event} close={close} />)
  useActs(
    EVENTS.map(([event, act]) => ({
      id: `review ${event}`,
      title: `${act} on #${pull.number}`,
      group: 'Review',
      unavailable,
      act: ask(event),
    })),
  )
  const { length } = state.pending
  return (
    <div class="review-bar">
      <span class={length === 0 ? 'faint' : ''}>
        {length === 0
          ? 'Choose a line number to comment on it.'
          : `${countOf(length, 'comment')} in your review, not sent`}
      </span>
      {EVENTS.map(([event, act]) => (
        <Button key={event} small unavailable={unavailable} act={ask(event)}>
          {act}…
        </Button>
      ))}
    </div>
  )
}

interface ReviewFormProps extends ReviewBarProps {
  readonly event: ReviewEvent
  readonly close: () => void
}

function ReviewForm({ open: { pull, reload }, state, event, close }: ReviewFormProps) {
  const text = useSignal('')
  const [, act = '', done = ''] = EVENTS.find(([each]) => each === event) ?? []
  const { pending } = state
  const isEmpty = event !== 'APPROVE' && text.value.trim() === '' && pending.length === 0
  async function send(): Promise<void> {
    const comments = pending.map(({ path, line, side, body }) => ({ path, line, side, body }))
    await host.reviewPull({
      repo: pull.repo,
      number: pull.number,
      body: { event, body: text.value, ...(comments.length === 0 ? {} : { comments }) },
    })
    state.clearPending()
    showOutcome(done)
    reload()
  }
  return (
    <FormDialog
      title={`${act} on #${pull.number}`}
      act={act}
      busyWord="Sending"
      unavailable={isEmpty ? 'Write something, or comment on a line.' : undefined}
      send={send}
      close={close}
    >
      <p class="quiet dialog-lead">{countOf(pending.length, 'comment')} on lines go with it.</p>
      <TextField
        label="Words for all of it"
        lines={5}
        value={text.value}
        change={(value) => {
          text.value = value
        }}
        autoFocus
      />
    </FormDialog>
  )
}
