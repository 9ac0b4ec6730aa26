export const PROVISION = 'provision'
