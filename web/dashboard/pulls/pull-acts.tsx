/** The acts on a pull request: merge, send a follow-up, take it out of draft, close, reopen. */
import { useSignal } from '@preact/signals'
import { concernsOf } from '../../../protocol/pull-concerns.ts'
import type { MergeMethod } from '../../../protocol/pulls.ts'
import { type Act, useActs } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { askBefore, showDialog } from '../../elements/dialog.tsx'
import { bound, SelectField, TextField } from '../../elements/field.tsx'
import { FormDialog } from '../../elements/form-dialog.tsx'
import { showError, showOutcome } from '../../elements/toasts.ts'
import { navigate } from '../../router.ts'
import { countOf } from '../../text/amounts.ts'
import type { DiffState } from '../diff/diff-state.ts'
import { factsOf, runActs } from '../runs/run-acts.ts'
import { whyNot } from '../runs/run-rules.ts'
import { host } from '../state/host.ts'
import { allowedMethods, checksSummary, hasConflict, whyNotMerge } from './check-words.ts'
import type { OpenPull } from './pull-page.tsx'

export function PullActs(open: OpenPull) {
  const { pull, run, reload } = open
  const name = { repo: pull.repo, number: pull.number }
  const group = `Actions on #${pull.number}`
  const isOver = pull.state === 'merged' || pull.state === 'closed'
  const after = (words: string) => () => {
    showOutcome(words)
    reload()
  }
  const merge: Act = {
    id: 'merge',
    title: `Merge #${pull.number}`,
    group,
    unavailable: whyNotMerge(pull),
    act: () => askForMerge(open),
  }
  const followUp: Act = {
    id: 'follow up pull',
    title: `Send a follow-up to #${pull.number}`,
    group,
    keys: 'u',
    unavailable: run === undefined ? 'No run of this host made it.' : whyNot('followup', run, factsOf(run)),
    act: async () => {
      if (run !== undefined) await runActs(run).followup.act()
    },
  }
  useActs([
    merge,
    followUp,
    { id: 'back', title: 'Back to the pull requests', group, keys: 'Escape', act: () => navigate('/pulls') },
    { id: 'read pull', title: 'Ask the code host again', group, act: reload },
  ])
  return (
    <>
      {pull.state === 'draft' && (
        <Button act={() => host.readyPull(name).then(after('It is ready for review.'), showError)}>
          Ready for review
        </Button>
      )}
      {!isOver && (
        <Button unavailable={followUp.unavailable} act={followUp.act}>
          {hasConflict(pull) ? 'Send follow-up to solve conflicts…' : 'Send follow-up…'}
        </Button>
      )}
      {pull.state === 'closed' && (
        <Button act={() => host.reopenPull(name).then(after('It is open again.'), showError)}>Reopen</Button>
      )}
      {!isOver && (
        <Button kind="destructive" act={() => close(open)}>
          Close…
        </Button>
      )}
      {!isOver && (
        <Button kind="primary" unavailable={merge.unavailable} act={merge.act}>
          Merge…
        </Button>
      )}
      {merge.unavailable !== undefined && !isOver && <span class="faint">{merge.unavailable}</span>}
    </>
  )
}

async function close({ pull, reload }: OpenPull): Promise<void> {
  const isAgreed = await askBefore({
    title: `Close #${pull.number}?`,
    loses: `${countOf(pull.commits.length, 'commit stays', 'commits stay')} on ${pull.headBranch}, and it can be reopened.`,
    keep: 'Keep it open',
    act: 'Close pull request',
  })
  if (!isAgreed) return
  try {
    await host.closePull({ repo: pull.repo, number: pull.number })
    showOutcome(`#${pull.number} is closed.`)
  } catch (error) {
    showError(error)
  }
  reload()
}

const askForMerge = (open: OpenPull): Promise<void> =>
  showDialog((closeDialog) => <MergeForm open={open} close={closeDialog} />)

function MergeForm({
  open: { pull, reload },
  close: closeDialog,
}: {
  readonly open: OpenPull
  readonly close: () => void
}) {
  const allowed = allowedMethods(pull)
  const method = useSignal<MergeMethod>(allowed[0]?.[0] ?? 'squash')
  const concerns = concernsOf(pull)
  async function send(): Promise<void> {
    const seen = pull.headSha === '' ? {} : { headSha: pull.headSha }
    await host.mergePull({ repo: pull.repo, number: pull.number, body: { method: method.value, ...seen } })
    showOutcome(`#${pull.number} is merged into ${pull.baseBranch}.`)
    reload()
  }
  return (
    <FormDialog
      title={`Merge #${pull.number}?`}
      act={concerns.length === 0 ? 'Merge pull request' : 'Merge anyway'}
      busyWord="Merging"
      send={send}
      close={closeDialog}
    >
      <p class="quiet dialog-lead">
        {pull.title}. {checksSummary(pull.checks)}. A merge cannot be taken back here.
      </p>
      {concerns.length > 0 && <p>This speaks against it: {concerns.join('; ')}.</p>}
      <SelectField
        label="Method"
        hint={
          pull.mergeMethods === undefined
            ? 'A code host that forbids a method says so, and nothing is merged.'
            : 'The repository allows no other.'
        }
        value={method.value}
        change={(value) => {
          method.value = allowed.find(([known]) => known === value)?.[0] ?? 'squash'
        }}
        options={allowed}
      />
    </FormDialog>
  )
}

// ---- reviews -------------------------------------------------------------------------------------------------------

type ReviewEvent = 'APPROVE' | 'REQUEST_CHANGES' | 'COMMENT'

const EVENTS: readonly (readonly [event: ReviewEvent, act: string, done: string])[] = [
  ['COMMENT', 'Comment', 'Your review is sent.'],
  ['APPROVE', 'Approve', 'You have approved it.'],
  ['REQUEST_CHANGES', 'Request changes', 'You have requested changes.'],
]

interface ReviewBarProps {
  readonly open: OpenPull
  readonly state: DiffState
}

/** The review that is being written: how many comments wait in it, and the ways to send it. */
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
    state.markPendingSent()
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
      <TextField label="Words for all of it" lines={5} {...bound(text)} autoFocus />
    </FormDialog>
  )
}
