/** The head of a file in a diff, and the list of all files. */
import { Button } from '../../elements/button.tsx'
import { Icon } from '../../elements/icon.tsx'
import { formatCount } from '../../text/amounts.ts'
import { type DiffFile, splitPath } from './diff-rows.ts'
import type { DiffState } from './diff-state.ts'

/** `+31 −9`. */
export function Changes({ additions, deletions }: Pick<DiffFile, 'additions' | 'deletions'>) {
  if (additions + deletions === 0) return null
  return (
    <span class="diff-changes">
      <span class="tone-good">
        <span class="visually-hidden">lines added </span>+{formatCount(additions)}
      </span>{' '}
      <span class="tone-bad">
        <span class="visually-hidden">lines removed </span>−{formatCount(deletions)}
      </span>
    </span>
  )
}

const STATUS_WORDS: Readonly<Record<string, string>> = {
  added: 'New',
  removed: 'Deleted',
  deleted: 'Deleted',
  renamed: 'Renamed',
  copied: 'Copied',
}

export function DiffFileHead({ state, file }: { readonly state: DiffState; readonly file: DiffFile }) {
  const [folder, name] = splitPath(file.path)
  const isFolded = state.isFolded(file)
  return (
    <div class={`diff-head${isFolded ? ' folded' : ''}`} role="cell">
      <h3>
        <button
          type="button"
          class="diff-fold"
          aria-expanded={!isFolded}
          onClick={() => state.toggleFolded(file.path)}
        >
          <Icon name={isFolded ? 'right' : 'down'} />
          <span class="mono diff-path" title={file.path}>
            <bdi>
              {folder}
              <strong>{name}</strong>
            </bdi>
          </span>
        </button>
      </h3>
      {STATUS_WORDS[file.status] !== undefined && <span class="tag">{STATUS_WORDS[file.status]}</span>}
      <Changes {...file} />
      {file.previousPath !== undefined && (
        <span class="faint ellipsis diff-previous" title={file.previousPath}>
          was <bdi class="mono">{file.previousPath}</bdi>
        </span>
      )}
      <span class="diff-viewed">
        <Button small pressed={state.isViewed(file)} act={() => state.toggleViewed(file)}>
          {state.isViewed(file) ? 'Viewed' : 'Mark viewed'} <kbd>V</kbd>
        </Button>
      </span>
    </div>
  )
}

export interface DiffFileListProps {
  readonly state: DiffState
  readonly files: readonly DiffFile[]
  /** How many open threads and unsent comments each file has. */
  readonly commentsOf: (file: DiffFile) => number
  readonly open: (file: DiffFile) => void
}

export function DiffFileList({ state, files, commentsOf, open }: DiffFileListProps) {
  const current = state.current.value?.path
  return (
    <ul class="diff-files">
      {files.map((file) => (
        <li key={file.path}>
          <button
            type="button"
            class="diff-file"
            aria-current={file.path === current ? 'true' : undefined}
            title={file.path}
            onClick={() => open(file)}
          >
            <span class={`mono diff-path${state.isViewed(file) ? ' faint' : ''}`}>
              <bdi>{file.path}</bdi>
            </span>
            {commentsOf(file) > 0 && (
              <strong class="tone-warn" title="Comments">
                {commentsOf(file)}
                <span class="visually-hidden"> comments</span>
              </strong>
            )}
            <Changes {...file} />
          </button>
        </li>
      ))}
    </ul>
  )
}
