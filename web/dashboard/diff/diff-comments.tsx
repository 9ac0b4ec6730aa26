/** The comments of a person in a diff: those that wait in the review, and those being written. */

import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
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

interface WaitingProps {
  readonly kind: 'pending' | 'sent'
  readonly comment: LineComment
  /** Stands behind the name of its line. */
  readonly words: ComponentChildren
  readonly children: ComponentChildren
}

const Waiting = ({ kind, comment, words, children }: WaitingProps) => (
  <div class="diff-inset" role="cell">
    <div class={`comment-box ${kind}`}>
      <p class="comment-words">{comment.body}</p>
      <div class="comment-foot">
        <span class="faint">
          {capitalized(lineWords(comment))}, {words}
        </span>
        {children}
      </div>
    </div>
  </div>
)

interface CommentProps<C> {
  readonly state: DiffState
  readonly comment: C
}

export const PendingComment = ({ state, comment }: CommentProps<LineComment>) => (
  <Waiting kind="pending" comment={comment} words="not sent">
    <Button kind="plain-quiet" act={() => state.remove(comment)}>
      Remove
    </Button>
    <Button act={() => state.edit(comment)}>Edit</Button>
  </Waiting>
)

const SENT_WORDS = {
  agent: 'sent to the agent',
  review: 'sent with your review; the code host does not show it yet',
} as const

export const SentMark = ({ state, comment }: CommentProps<SentComment>) => (
  <Waiting
    kind="sent"
    comment={comment}
    words={
      <>
        {SENT_WORDS[comment.to]}, <Age since={comment.at} /> ago
      </>
    }
  >
    <Button kind="plain-quiet" act={() => state.hideSent(comment)}>
      Hide
    </Button>
  </Waiting>
)

interface DraftBoxProps {
  readonly draft: LineComment
  readonly diff: DiffProps
  /** Whether the box was opened just now, and gets the focus. */
  readonly isNew: boolean
}

/** The box of a comment being written on lines of a diff. Its words go into the review, or to the agent at once. */
export function DraftBox({ draft, diff, isNew }: DraftBoxProps) {
  const { state, files, sendToAgent, sendUnavailable, reviewUnavailable } = diff
  const discard = () => state.discard(draft)
  const id = useId()
  const field = useRef<HTMLTextAreaElement>(null)
  const problem = useSignal<string | undefined>(undefined)
  const words = `${lineWords(draft)}${draft.side === 'LEFT' ? ' before the change' : ''}`
  const empty = draft.body.trim() === '' ? 'Write the comment first.' : undefined
  useEffect(() => {
    if (isNew) field.current?.focus({ preventScroll: true })
  }, [])

  async function send(): Promise<void> {
    problem.value = undefined
    try {
      await sendToAgent?.(instructionsOf([{ comment: draft, lines: commentedLines(files, draft) }]))
      state.markSentToAgent(draft)
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
    else if (empty === undefined && reviewUnavailable === undefined) state.addToReview(draft)
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
        onInput={(event) => state.write(draft, event.currentTarget.value)}
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
        <Button act={() => state.addToReview(draft)} unavailable={reviewUnavailable ?? empty}>
          Add to review <kbd>Ctrl ↵</kbd>
        </Button>
        {sendToAgent !== undefined && (
          <Button kind="primary" busyWord="Sending" act={send} unavailable={sendUnavailable ?? empty}>
            Send to agent
          </Button>
        )}
      </div>
    </div>
  )
}

function commentedLines(files: DiffProps['files'], comment: LineComment) {
  const at = files.findIndex(({ path }) => path === comment.path)
  const file = files[at]
  const first = { ...comment, line: comment.from ?? comment.line }
  return file === undefined ? [] : linesBetween(rowsOf(file, at), first, comment)
}
