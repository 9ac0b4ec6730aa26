/** The comments of a person in a diff: those that wait in the review, and those being written. */
import { Button } from '../../elements/button.tsx'
import { instructionsOf, type LineComment, lineWords } from './agent-instructions.ts'
import { CommentBox } from './comment-box.tsx'
import type { DiffProps } from './diff.tsx'
import { rowsOf } from './diff-list.ts'
import { linesBetween } from './diff-rows.ts'
import type { DiffState } from './diff-state.ts'

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
          <span class="faint">{lineWords(comment).replace('l', 'L')}, not sent</span>
          <Button kind="plain-quiet" act={() => state.remove(comment)}>
            Remove
          </Button>
          <Button act={() => state.edit(comment)}>Edit</Button>
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
    state.discard(draft)
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
