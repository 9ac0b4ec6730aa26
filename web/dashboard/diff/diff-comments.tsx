/** The comments of a person in a diff: those that wait in the review, and those being written. */
import { useSignal } from '@preact/signals'
import { useEffect, useId, useRef } from 'preact/hooks'
import { messageOf } from '../../../protocol/message-of.ts'
import { Button } from '../../elements/button.tsx'
import { Age } from '../../elements/moments.tsx'
import { capitalized } from '../../text/sentences.ts'
import type { DiffProps } from './diff.tsx'
import { rowsOf } from './diff-list.ts'
import { linesBetween } from './diff-rows.ts'
import type { DiffState, SentComment } from './diff-state.ts'
import { instructionsOf, type LineComment, lineWords } from './diff-state.ts'

export function PendingComment({
  state,
  comment,
}: {
  readonly state: DiffState
  readonly comment: LineComment
}) {
  return (
    <div class="diff-inset" role="cell">
      <div class="comment-box pending">
        <p class="comment-words">{comment.body}</p>
        <div class="comment-foot">
          <span class="faint">{capitalized(lineWords(comment))}, not sent</span>
          <Button kind="plain-quiet" act={() => state.remove(comment)}>
            Remove
          </Button>
          <Button act={() => state.edit(comment)}>Edit</Button>
        </div>
      </div>
    </div>
  )
}

const SENT_WORDS = {
  agent: 'sent to the agent',
  review: 'sent with your review; the code host does not show it yet',
} as const

export function SentMark({ state, comment }: { readonly state: DiffState; readonly comment: SentComment }) {
  return (
    <div class="diff-inset" role="cell">
      <div class="comment-box sent">
        <p class="comment-words">{comment.body}</p>
        <div class="comment-foot">
          <span class="faint">
            {capitalized(lineWords(comment))}, {SENT_WORDS[comment.to]}, <Age since={comment.at} /> ago
          </span>
          <Button kind="plain-quiet" act={() => state.hideSent(comment)}>
            Hide
          </Button>
        </div>
      </div>
    </div>
  )
}

export function DraftBox({
  draft,
  diff,
  isNew,
}: {
  readonly draft: LineComment
  readonly diff: DiffProps
  readonly isNew: boolean
}) {
  const { state, files, sendToAgent } = diff
  const send = async (): Promise<void> => {
    const at = files.findIndex(({ path }) => path === draft.path)
    const file = files[at]
    const first = { ...draft, line: draft.from ?? draft.line }
    const lines = file === undefined ? [] : linesBetween(rowsOf(file, at), first, draft)
    await sendToAgent?.(instructionsOf([{ comment: draft, lines }]))
    state.markSentToAgent(draft)
  }
  return (
    <CommentBox
      draft={draft}
      isNew={isNew}
      write={(body) => state.write(draft, body)}
      discard={() => state.discard(draft)}
      addToReview={() => state.addToReview(draft)}
      reviewUnavailable={diff.reviewUnavailable}
      sendToAgent={sendToAgent === undefined ? undefined : send}
      sendUnavailable={diff.sendUnavailable}
    />
  )
}

// ---- the box -------------------------------------------------------------------------------------------------------

interface CommentBoxProps {
  readonly draft: LineComment
  /** Whether the box was opened just now, and gets the focus. */
  readonly isNew: boolean
  readonly write: (body: string) => void
  readonly discard: () => void
  readonly addToReview: () => void
  readonly reviewUnavailable: string | undefined
  /** Absent where there is no agent to send to. */
  readonly sendToAgent: (() => Promise<void>) | undefined
  readonly sendUnavailable: string | undefined
}

/** The box of a comment being written on lines of a diff. Its words go into the review, or to the agent at once. */
function CommentBox(props: CommentBoxProps) {
  const { draft, write, discard, addToReview, sendToAgent } = props
  const id = useId()
  const field = useRef<HTMLTextAreaElement>(null)
  const problem = useSignal<string | undefined>(undefined)
  const words = `${lineWords(draft)}${draft.side === 'LEFT' ? ' before the change' : ''}`
  const empty = draft.body.trim() === '' ? 'Write the comment first.' : undefined
  useEffect(() => {
    if (props.isNew) field.current?.focus({ preventScroll: true })
  }, [])

  async function send(): Promise<void> {
    problem.value = undefined
    try {
      await sendToAgent?.()
    } catch (error) {
      problem.value = messageOf(error)
    }
  }

  function onKeyDown(event: KeyboardEvent): void {
    const isAdding = event.key === 'Enter' && (event.ctrlKey || event.metaKey)
    const isLeaving = event.key === 'Escape' && draft.body.trim() === ''
    if (!isAdding && !isLeaving) return
    event.preventDefault()
    event.stopPropagation()
    if (isLeaving) discard()
    else if (empty === undefined && props.reviewUnavailable === undefined) addToReview()
  }

  return (
    <div class="comment-box">
      <label class="visually-hidden" for={id}>
        Comment on {words} of {draft.path}
      </label>
      <textarea
        id={id}
        ref={field}
        rows={3}
        placeholder="What should change, and why"
        value={draft.body}
        onInput={(event) => write(event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      {problem.value !== undefined && (
        <p class="problem" role="alert">
          {problem.value}
        </p>
      )}
      <div class="comment-foot">
        <span class="faint">{words.replace('l', 'L')}</span>
        <Button kind="plain-quiet" act={discard}>
          Discard
        </Button>
        <Button act={addToReview} unavailable={props.reviewUnavailable ?? empty}>
          Add to review <kbd>Ctrl ↵</kbd>
        </Button>
        {sendToAgent !== undefined && (
          <Button kind="primary" busyWord="Sending" act={send} unavailable={props.sendUnavailable ?? empty}>
            Send to agent
          </Button>
        )}
      </div>
    </div>
  )
}
