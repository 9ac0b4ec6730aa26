export function isSupportedNode(version: string): boolean
export function judgeGit(answer: string): { readonly problem?: string; readonly warning?: string }
