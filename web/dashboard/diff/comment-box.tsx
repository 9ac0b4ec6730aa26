/** The box of a comment being written on lines of a diff. Its words go into the review, or to the agent at once. */
import { useSignal } from '@preact/signals'
import { useEffect, useId, useRef } from 'preact/hooks'
import { Button } from '../../elements/button.tsx'
import { type LineComment, lineWords } from './agent-instructions.ts'

export interface CommentBoxProps {
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

export function CommentBox(props: CommentBoxProps) {
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
      problem.value = error instanceof Error ? error.message : String(error)
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
