/**
 * Evidence: what a run left as artifacts, where it lies in the bucket, and the comment that links it in the pull
 * request. The comment bears a marker, so that it is there once however often it is tried.
 */
import type { ServiceConfig } from '../../protocol/config.ts'
import { PROSE_CHARS_MAX } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'

export interface PublishedArtifact {
  readonly name: string
  readonly url: string
  readonly isImage: boolean
}

/** Whether a person wants evidence to be kept at all. */
export function isUploadConfigured({ bucket, publicBaseUrl }: ServiceConfig['storage']): boolean {
  return bucket !== '' && publicBaseUrl !== ''
}

/** An execution of a run has a folder of its own: a retry may leave the same names. */
export function artifactKey(run: Pick<Run, 'id' | 'finishedAt'>, name: string): string {
  return `${run.id}/${(run.finishedAt ?? run.id).replace(/[^0-9A-Za-z]/g, '')}/${name}`
}

/** Each segment percent-encoded; a base that ends with a slash is the same as one that does not. */
export function artifactUrl(publicBaseUrl: string, key: string): string {
  return `${publicBaseUrl.replace(/\/+$/, '')}/${key.split('/').map(encodeURIComponent).join('/')}`
}

export function artifactMarker(run: Pick<Run, 'id' | 'finishedAt'>): string {
  return `<!-- switchyard:evidence ${artifactKey(run, '').slice(0, -1)} -->`
}

const moreNote = (count: number): string => `\n- and ${count} more`
/** For the line that counts those that are left out. */
const SLACK_CHARS = 64

export function artifactComment(run: Run, items: readonly PublishedArtifact[]): string {
  const marker = artifactMarker(run)
  let text = `Left by the run on ${escapeMarkdown(run.ticket.identifier)}:\n`
  for (const [index, item] of items.entries()) {
    const line = `\n- ${item.isImage ? '!' : ''}[${escapeMarkdown(item.name)}](${item.url})`
    if (text.length + line.length + marker.length + SLACK_CHARS > PROSE_CHARS_MAX) {
      text += moreNote(items.length - index)
      break
    }
    text += line
  }
  return `${text}\n\n${marker}`
}

/** A name must not end a link and begin something else. */
function escapeMarkdown(text: string): string {
  return text.replace(/[\\`*_{}[\]()#+!|<>&~@]/g, (sign) => `&#${sign.charCodeAt(0)};`).replace(/\s+/g, ' ')
}
