//! Families, users and identities.

use domain::auth::provisioning::{FamilyPut, IdentityPut, UserPut};
use domain::auth::upstream::is_idp_name;
use domain::ids::{FamilyId, UserId};
use domain::keys::{HashLabel, KeySubject};
use domain::sql::Shard;
use store::provisioning::{Family, Identity, NewKey, User};

use super::{Call, Handled, Judged, Request, invalid, path_id};

/// `PUT /internal/families/{family_id}`
pub async fn put_family(call: &Call) -> Handled {
    let family_id = path_id(call, "family_id", FamilyId::parse)?;
    let request = Request::new(call, family_id.shard())?;
    if let Judged::Answer(answer) = request.judge(vec![]).await? {
        return answer;
    }
    let put = FamilyPut::parse(&call.body).map_err(invalid)?;
    let (key, wrapped) = request.new_key(KeySubject::Family(family_id.clone()))?;
    let new_key = NewKey {
        key: &key,
        wrapped: &wrapped,
    };
    let family = Family {
        family_id: &family_id,
        put: &put,
        new_key,
    };
    request.run(family.batch(&request.command())).await
}

/// `PUT /internal/users/{user_id}`
pub async fn put_user(call: &Call) -> Handled {
    let user_id = path_id(call, "user_id", UserId::parse)?;
    let request = Request::new(call, user_id.shard())?;
    if let Judged::Answer(answer) = request.judge(vec![]).await? {
        return answer;
    }
    let put = UserPut::parse(&call.body).map_err(invalid)?;
    let (key, wrapped) = request.new_key(KeySubject::User(user_id.clone()))?;
    let new_key = NewKey {
        key: &key,
        wrapped: &wrapped,
    };
    let user = User {
        user_id: &user_id,
        put: &put,
        new_key,
    };
    request.run(user.batch(&request.command())).await
}

/// `PUT /internal/users/{user_id}/identities/{idp}`
pub async fn put_identity(call: &Call) -> Handled {
    let user_id = path_id(call, "user_id", UserId::parse)?;
    let idp = path_id(
        call,
        "idp",
        |idp| if is_idp_name(idp) { Ok(idp.to_owned()) } else { Err(()) },
    )?;
    let request = Request::new(call, Shard::Directory)?;
    if let Judged::Answer(answer) = request.judge(vec![]).await? {
        return answer;
    }
    let put = IdentityPut::parse(&call.body).map_err(invalid)?;
    let parts = [idp.as_bytes(), put.subject.as_bytes()];
    let subject_hash = call.app.master.keyed_hash_of(HashLabel::IdentitySubject, &parts);
    let identity = Identity {
        user_id: &user_id,
        idp: &idp,
        subject_hash: &subject_hash,
    };
    request.run(identity.batch(&request.command())).await
}
