/**
 * Reduces GitHub's lists of pull requests to the fields that are used.
 *
 * GitHub sends both repositories with each pull request, a hundred times as much data. The full lists of fifty
 * repositories would take tens of MiB of cache and 100 ms to parse.
 */
import { parseJson } from '../../../protocol/parse.ts'
import type { ReplyProjection } from '../../http/client-types.ts'
import { ANSWER_KEYS_MAX } from './api.ts'
import { readField } from './fields.ts'

/** Keeps GitHub's structure, so the same code reads lists and single pull requests. */
export const PULL_LIST_PROJECTION: ReplyProjection = {
  name: 'pull list',
  apply(text) {
    const list = parseJson(text, ANSWER_KEYS_MAX)
    return list.ok && Array.isArray(list.value) ? JSON.stringify(list.value.map(projectPull)) : text
  },
}

const FIELDS = [
  'number',
  'html_url',
  'title',
  'state',
  'draft',
  'merged',
  'merged_at',
  'created_at',
  'updated_at',
]

function projectPull(pull: unknown): object {
  return {
    ...Object.fromEntries(FIELDS.map((name) => [name, readField(pull, name)])),
    user: { login: readField(pull, 'user', 'login') },
    base: { ref: readField(pull, 'base', 'ref') },
    head: { ref: readField(pull, 'head', 'ref') },
  }
}
